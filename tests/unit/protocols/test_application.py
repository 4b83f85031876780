"""The top of a stack: what it may carry, and snapshots."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.harness.golden import StackRig
from tests.harness.recording import RecordingSite

from isthmus.core.errors import LocalError
from isthmus.core.layer import View
from isthmus.core.message import Author, GroupId, SiteId

AUTHOR: Author = (GroupId(7), SiteId(3), 5)


def rig(site: int, stack: str = "fifo", **options: str) -> tuple[RecordingSite, StackRig]:
    made = RecordingSite(SiteId(site))
    rig = StackRig(stack, made.host, options, made.note)
    made.attach(rig.stack)
    made.run(lambda: made.host.install(View(1, (SiteId(0), SiteId(1)))))
    made.run(made.host.resume)
    made.drain()
    return made, rig


def test_a_courier_carries_a_message_under_its_authors_name() -> None:
    site, made = rig(0, "couriers", couriers="0")
    site.run(lambda: made.carry(b"x", AUTHOR))
    assert "deliver g7/3:5" in site.drain()
    site.run(lambda: made.submit(b"y", ()))
    assert "submit 0:2" in site.drain(), "the courier has used its number 1 for it"


@pytest.mark.parametrize(("stack", "options"), [("couriers", {"couriers": "1"}), ("token-site", {})])
def test_what_others_would_refuse_is_refused_at_once(stack: str, options: dict[str, str]) -> None:
    """Sent all the same, the frame would be refused everywhere, and every later frame wait for it."""
    site, made = rig(0, stack, **options)
    with pytest.raises(LocalError, match="carry a message"):
        site.run(lambda: made.carry(b"x", AUTHOR))
    assert site.drain() == []
    site.run(lambda: made.submit(b"y", ()))
    lines = site.drain()
    assert lines[0] == "submit 0:1", "no number was used up"
    assert "deliver 0:1" in lines, "and nothing is in the way"


def test_an_application_without_snapshots_takes_none() -> None:
    _, made = rig(0)
    assert made.application.state() == b""
    with pytest.raises(LocalError, match="on_restore"):
        made.application.restore(b"x")


class Keeper:
    """A keeper that is only asked for."""

    def snapshot(self, done: Callable[[bytes | None], None]) -> None: ...
    def hold(self) -> None: ...
    def held_bytes(self) -> int:
        return 0

    def restore(self, state: bytes | None, done: Callable[[bool], None]) -> None: ...


def test_a_keeper_has_the_state_in_place_of_the_callbacks() -> None:
    _, made = rig(0)
    assert made.stack.keeper() is None
    keeper = made.application.state_keeper = Keeper()
    made.application.on_state = lambda: b"not this way"
    assert made.stack.keeper() is keeper
    assert made.stack.layers[-1].keeper() is None, "the top of the stack has it"
    assert made.application.state() == b""
