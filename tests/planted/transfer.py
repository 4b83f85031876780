"""Wrong readings of the transfer of a state, each as methods that take the place of those of `StateTransfer`."""

from __future__ import annotations

from typing import Any

import msgspec

from isthmus.protocols.membership.transfer import APPLICATION, FETCHING, NO_STATE, Snapshot, StateTransfer
from isthmus.protocols.membership.window import PIECE_BYTES, Item

LATE_NS = 200_000_000
right_fixes = StateTransfer.fixes
KEPT: dict[tuple[int, int, int], Item] = {}
right_open, right_tick = StateTransfer.open, StateTransfer.tick


def hold_anew(self: StateTransfer) -> None:
    """What was held is dropped at each view, although the base stays."""
    right_open(self)
    if self.phase is FETCHING and self.base < self.opened_id and self.keeper is not None:
        self.keeper.hold()


def never_strand(self: StateTransfer) -> None:
    """A member whose base is gone goes on asking for it."""


def any_digest(self: StateTransfer, part: int, digest: bytes) -> bool:
    """Pieces of an earlier snapshot of the base count for the one that is under way."""
    key, known = (self.member.host.site, self.base, part), (part, self.digests[part])
    if right_fixes(self, part, digest) and known != (part, digest) and key in KEPT:
        item, kept = self.window.items[part, digest], KEPT[key]
        item.total, item.parts, item.next_offset = kept.total, dict(kept.parts), kept.next_offset
        item.again.extend([start for start in range(0, kept.next_offset, PIECE_BYTES) if start not in kept.parts])
    if (part, digest) in self.window.items:
        KEPT[key] = self.window.items[part, digest]
    return self.digests[part] == digest


def take_unchecked(self: StateTransfer, part: int, whole: bytes) -> None:
    """What came is taken for what was said."""
    self.parts[part] = whole
    if self.phase is FETCHING:
        self.restore()
    elif part != APPLICATION and self.is_decodable():
        self.member.install_stack()


def snapshot_late(self: StateTransfer) -> None:
    """The snapshot is taken some time after the base was installed."""
    layers = msgspec.msgpack.encode(self.member.stack.state())
    made = Snapshot(layers, NO_STATE if self.keeper is None else None, self.member.host.now_ns)
    self.snapshots[self.opened_id] = made


def tick_with_snapshot(self: StateTransfer) -> None:
    for made in list(self.snapshots.values()):
        waits = self.member.host.now_ns - made.since_ns < LATE_NS
        if made.application is None and -1 not in made.digests and not waits and self.keeper is not None:
            made.digests[-1] = b"taken"
            self.keeper.snapshot(lambda state, made=made: self.on_snapshot(made, state))  # type: ignore[misc]
    right_tick(self)


def all_give(self: StateTransfer) -> None:
    """Every member that has the state takes a snapshot, whoever is to give it."""
    tasks = () if self.member.decision is None else self.member.decision.transfers
    if self.member.stateful and any(task.base == self.opened_id for task in tasks):
        self.take_snapshot()
    self.answer_waiting()


def count_at_once(self: StateTransfer) -> None:
    """A member counts as one that has the state once its stack is in the view."""
    right_open(self)
    self.member.stateful = True


PLANTED_TRANSFER: dict[str, tuple[str, dict[str, Any]]] = {  # the story that shows it, and what is replaced
    "messages since the base are forgotten": ("views change meanwhile", {"open": hold_anew}),
    "no new base": ("a restore fails", {"strand": never_strand}),
    "two states are mixed": ("two givers, one crashes", {"fixes": any_digest, "take": take_unchecked}),
    "the digest is not checked": ("pieces of one site go wrong", {"take": take_unchecked}),
    "the snapshot is taken late": ("one joins", {"take_snapshot": snapshot_late, "tick": tick_with_snapshot}),
    "every member takes a snapshot": ("one joins", {"give": all_give}),
    "a joiner counts before it has restored": ("views change meanwhile", {"open": count_at_once}),
}
