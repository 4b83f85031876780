"""Positions: numbers that give the place of a message in a total order, the same at every member.

Problem: an application wants to store its progress, compare two messages, or fence off an old writer. It needs a number
per message that is the same everywhere and grows with the order, also at a member that joined late or that some
messages do not address. Idea: the number of the view, and within it the place in the order: the ticket's number, or the
count of messages before. A new view begins above all positions of the last one, so a member that joins needs no state.

A message without a ticket as its view closes is delivered by sender and number; these make its place, behind all
tickets, as members need not know of each other's leftovers where messages are for some members only.

Invariants: a message has the same position at every site; later messages have higher ones; 0 is no position. Positions
are not consecutive: messages of protocols and for other members have places, too. Up to a million views fit 63 bits.
"""

from __future__ import annotations

from isthmus.core.layer import View
from isthmus.core.message import Cast

PLACE_BITS = 43  # of the places of a view
LEFT_OVER = 1 << PLACE_BITS - 1  # from here on without a ticket: 10 bits for the sender, 32 for its number
NUMBER_BITS = 32  # those above are the incarnation, of which a sender has one in a view


def position(view: View, place: int) -> int:
    """Return the position of a place, 1, 2, 3 ..., in the order of a view."""
    return view.view_id << PLACE_BITS | place


def left_over(view: View, cast: Cast) -> int:
    """Return the position of a message that is delivered without a ticket as its view closes."""
    rank = sorted(view.members).index(cast.sender) if cast.sender in view.members else len(view.members)
    number = cast.number & (1 << NUMBER_BITS) - 1
    return position(view, LEFT_OVER | rank << NUMBER_BITS | number)
