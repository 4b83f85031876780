"""Positions: numbers that say where a message is in a total order, the same at every member.

Problem: an application wants to store how far it has come, compare two messages, or fence off an old writer: it needs
a number for a message that is the same everywhere and grows with the order, also at a member that joined late, or that
is not addressed by some messages. Idea: the number of the view, and within it the place that the order gives: the
ticket's number, or how many messages came before. A new view begins above all of the one before, so nothing need be
handed to members that join.

What is left over when a view closes has no ticket, and members may not know of each other's, where messages are for
some. It is delivered by sender and number, so these make its place, behind all tickets.

Invariants: of the same message the same at every site; higher for a later one; 0 is no position. Numbers are not
consecutive: messages of protocols, and those for others, have places too. Up to a million views they fit 63 bits.
"""

from __future__ import annotations

from isthmus.core.layer import View
from isthmus.core.message import Cast

PLACE_BITS = 43  # of the places of a view
LEFT_OVER = 1 << PLACE_BITS - 1  # from here on without a ticket: 10 bits for the sender, 32 for its number
NUMBER_BITS = 32  # those above are the incarnation, of which a sender has one in a view


def position(view: View, place: int) -> int:
    """The position of what is at a place, 1, 2, 3 ..., of the order of a view."""
    return view.view_id << PLACE_BITS | place


def left_over(view: View, cast: Cast) -> int:
    """The position of a message without a ticket, which is delivered as its view closes."""
    rank = sorted(view.members).index(cast.sender) if cast.sender in view.members else len(view.members)
    number = cast.number & (1 << NUMBER_BITS) - 1
    return position(view, LEFT_OVER | rank << NUMBER_BITS | number)
