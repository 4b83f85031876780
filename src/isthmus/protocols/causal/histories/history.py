"""Extended causal histories: what a process must report of the past, and to which sites it already has.

Problem: messages go to arbitrary sets. A process that delivers m must have delivered everything before m that is
addressed to it. Timestamps with all of the past would grow without bound.

Idea (rules R1 to R9 of the paper, as they must be read): a process keeps H, the messages before its next one; for each
of them C, the processes to which it was *reported*; and D, the last message delivered of each sender. "Reported to x"
means: everything causally after now is delivered at x after something that covers n. Then
- a timestamp carries only entries not yet reported to some addressee (R7), and an entry reported to all its own
  addressees is forgotten (R8);
- an entry addressed only to the far side of a separator, and reported to all of the separator, need not be reported
  on the near side (R9): every path back passes the separator, which reports it there again.

A message is identified by sender and counter; both in one int, the counter above. Sets are ints, one bit per site. The
*address* of a message is its destinations and every relay that it passes.

When a history is too long, an *empty* message reports all of it to all sites concerned, and all of it is forgotten. It
is a message like any other, with a counter and a timestamp that leaves nothing out. Empty messages that report only a
part look harmless and deadlock: a gateway that learns of y by such a part, and not of x, which came before y, puts y
into x when it relays x, while another gateway, which had x first, puts x into y.

Invariants:
- a step is atomic: a timestamp is taken before its own sending is noted, and the message enters H after that;
- C of an entry only grows; an entry leaves H when C covers its address, or when a separator answers for the rest;
- D of a sender never goes back, because messages of one sender are delivered in the order sent.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from isthmus.core.message import SiteId
from isthmus.topology.gateways.separators import Cut, Separators

SENDER_BITS = 20
SENDER = (1 << SENDER_BITS) - 1
NO_CUTS: dict[int, tuple[Cut, ...]] = {}


class Entry(NamedTuple):
    """One message of the past in a timestamp."""

    key: int  # counter and sender
    address: int
    told: int  # the sites to which the timestamp's sender knows it reported; 0 where timestamps are not extended
    injected: int = 0  # of an entry that a relay added: the sites that got it; 0 if it was there from the start


Timestamp = tuple[Entry, ...]


class HistoryRules(msgspec.Struct, frozen=True):
    """The rules that can be switched off; the study shows the worth of each."""

    extended: bool = True  # timestamps say to which sites entries were reported
    symmetric: bool = True  # a later message in a timestamp covers an earlier one that is known, too
    separators: bool = True  # R9: entries that stay in a zone are not reported outside
    anywhere: bool = True  # R9 by any process, and for destinations in the separator; otherwise by its members
    remainder: bool = True  # R9 considers only the addressees without a report
    forgetting: bool = True  # what the far side of a separator answers for is forgotten
    pruning: bool = True  # R5 to R8; without, messages carry all of their past and no bound holds: for comparison only


def key_of(sender: SiteId, count: int) -> int:
    return count << SENDER_BITS | sender


class ExtendedHistory:
    """H, C and D of one process in one view."""

    __slots__ = (
        "address",
        "border",
        "count",
        "delivered",
        "far",
        "me",
        "of_sender",
        "pruning",
        "rules",
        "separators",
        "site",
        "symmetric",
        "told",
    )

    def __init__(self, site: SiteId, separators: Separators | None = None, rules: HistoryRules | None = None) -> None:
        self.site = site
        self.me = 1 << site
        self.rules = rules or HistoryRules()
        self.separators = separators if self.rules.separators else None
        self.count = 0  # of our own messages
        self.delivered: dict[int, int] = {}  # D
        self.told: dict[int, int] = {}  # C, of each entry of H
        self.address: dict[int, int] = {}
        self.of_sender: dict[int, dict[int, None]] = {}  # the entries of each sender
        far = self.separators is not None and self.rules.forgetting
        self.far = self.separators.behind(self.me) if far and self.separators is not None else NO_CUTS
        self.border = 0  # all separators between us and others: none answers for entries reported to none of these
        for cuts in self.far.values():
            for separator, _ in cuts:
                self.border |= separator
        self.symmetric = self.rules.symmetric
        self.pruning = self.rules.pruning

    # Sending

    def send(self, address: int) -> tuple[int, Timestamp]:
        """The key and the timestamp of our next message."""
        self.count += 1
        key = key_of(self.site, self.count)
        self.delivered[self.site] = self.count
        timestamp = self.entries_for(address)
        self.report_all(address | self.me)
        self.insert(key, address, 0)
        return key, timestamp

    def concerned(self) -> int:
        """All addressees of the messages in the history."""
        sites = 0
        for address in self.address.values():
            sites |= address
        return sites

    def forcible(self, address: int) -> tuple[int, int]:
        """The sites of our separators without a report, and the entries that they would answer for with it."""
        count = untold = 0
        if self.separators is not None:
            cuts = self.separators.cuts(address, 0)
            for entry in self.entries_for(address):
                told = self.told[entry.key]
                rest = entry.address & ~told
                for separator, far in cuts.get(rest & -rest, ()):
                    if separator & self.me and not rest & ~far:
                        count += 1
                        untold |= separator & ~told
                        break
        return untold & ~self.me, count

    def entries_for(self, address: int) -> Timestamp:
        """The entries that a message to an address must carry (R7, R9)."""
        if not self.pruning:
            return tuple([Entry(key, of_entry, 0) for key, of_entry in self.address.items()])
        entries = []
        cuts, extended = self.cuts(address), self.rules.extended
        for key, told in self.told.items():
            if address & ~told:
                of_entry = self.address[key]
                if cuts and self.answered(of_entry, told, cuts):
                    continue
                entries.append(Entry(key, of_entry, told if extended else 0))
        return tuple(entries)

    def cuts(self, address: int) -> dict[int, tuple[Cut, ...]]:
        """The separators with an address on the near side, by the sites on the far side."""
        if self.separators is None:
            return NO_CUTS
        return self.separators.cuts(address, 0 if self.rules.anywhere else self.me)

    def answered(self, address: int, told: int, cuts: dict[int, tuple[Cut, ...]]) -> bool:
        """Whether a separator answers for an entry: it has the report, and all sites without one are behind it."""
        rest = (address & ~told or address) if self.rules.remainder else address  # relays have some that all know
        for separator, far in cuts.get(rest & -rest, ()):  # noqa: SIM110  the loop is twice as fast
            if not separator & ~told and not rest & ~far:
                return True
        return False

    def report_all(self, sites: int) -> None:
        """Note that everything, stripped entries too, was reported to some sites; forget what all have (R8)."""
        told = self.told
        for key in told:
            told[key] |= sites
        self.forget_told(list(told))

    # Delivering

    def missing(self, timestamp: Timestamp) -> int:
        """The key of a message that must be delivered here first; 0 if none is missing."""
        me, delivered = self.me, self.delivered
        for key, address, _, _ in timestamp:
            if address & me and delivered.get(key & SENDER, 0) < key >> SENDER_BITS:
                return key
        return 0

    def deliver(self, key: int, address: int, timestamp: Timestamp) -> None:
        """Record a message that is delivered here."""
        touched = self.merge(key, address, timestamp, 0)
        told = 1 << (key & SENDER) | self.me
        if address & ~told or not self.pruning:
            self.insert(key, address, told)
            if told & self.border:
                touched.append(key)
        if touched:
            self.forget_told(touched)

    def merge(self, key: int, address: int, timestamp: Timestamp, rest: int) -> list[int]:
        """Merge a message's timestamp; `rest` of its address is still to be reached through us."""
        sender = key & SENDER
        here = address & ~rest
        of_sender = self.of_sender
        touched = self.cover(key, here) if of_sender.get(sender) else []
        self.delivered[sender] = key >> SENDER_BITS
        if not timestamp:
            return touched
        if not self.pruning:
            for other, of_other, _, _ in timestamp:
                if other not in self.told:
                    self.insert(other, of_other, 0)
            return []
        all_told = self.told
        if self.symmetric:
            for other, of_other, _, _ in timestamp:
                if other not in all_told and of_sender.get(other & SENDER):
                    touched += self.cover(other, of_other)
        heard = here | 1 << sender
        kin = len(timestamp) > 1 and len({other & SENDER for other, _, _, _ in timestamp}) < len(timestamp)
        for other, of_other, told, injected in timestamp:
            if not of_other & ~told:
                continue
            credit = told | (injected & ~rest if injected else heard)
            if kin or of_sender.get(other & SENDER):
                credit |= self.covered(other, timestamp)
            if other in all_told:
                all_told[other] |= credit
            else:
                self.insert(other, of_other, credit)
            touched.append(other)
        return touched

    def cover(self, key: int, sites: int) -> list[int]:
        """Credit the earlier messages of the same sender with the sites that this one reaches."""
        found: list[int] = []
        for earlier in self.of_sender.get(key & SENDER, ()):
            if earlier < key:
                self.told[earlier] |= sites
                found.append(earlier)
        return found

    def covered(self, key: int, timestamp: Timestamp) -> int:
        """The addressees of later messages of the same sender, which cover this one."""
        sender, sites = key & SENDER, 0
        for later in self.of_sender.get(sender, ()):
            if later > key:
                sites |= self.address[later]
        for other, address, _, _ in timestamp:
            if other > key and other & SENDER == sender:
                sites |= address
        return sites

    # Relaying

    def relay(self, key: int, address: int, timestamp: Timestamp, rest: int, hops: tuple[int, ...]) -> list[Timestamp]:
        """Record a message that is relayed; returns its timestamp for each hop, in order."""
        self.merge(key, address, timestamp, rest)
        known = {entry.key: entry.injected for entry in timestamp}
        stamps = []
        for reached in hops:
            sent = reached | self.me
            stamps.append(
                tuple(
                    Entry(entry.key, entry.address, entry.told, known.get(entry.key, sent))
                    for entry in self.entries_for(reached)
                )
            )
            for entry in self.told:
                self.told[entry] |= sent
        self.insert(key, address, 1 << (key & SENDER) | self.me)
        self.forget_told(list(self.told))
        return stamps

    # H

    def insert(self, key: int, address: int, told: int) -> None:
        self.told[key] = told
        self.address[key] = address
        sender = key & SENDER
        if sender in self.of_sender:
            self.of_sender[sender][key] = None
        else:
            self.of_sender[sender] = {key: None}

    def forget_told(self, touched: list[int]) -> None:
        """Drop entries reported to all addressees (R8), and those that a separator between us and the rest answers
        for."""
        if not self.pruning:
            return
        all_told, addresses, border = self.told, self.address, self.border
        for key in touched:
            told = all_told.get(key)
            if told is None:
                continue
            address = addresses[key]
            if not address & ~told or (told & border and self.answered(address, told, self.far)):
                del all_told[key], addresses[key], self.of_sender[key & SENDER][key]
