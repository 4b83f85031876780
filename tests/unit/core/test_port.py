"""A port: which messages reach the stack when, and what follows an event in which order."""

from __future__ import annotations

from random import Random
from typing import ClassVar

import pytest

from isthmus.core.layer import Handler, Kind, Layer, Reading, Stack, View
from isthmus.core.message import ONLY_GROUP, Cast, Message, SiteId, Targets
from isthmus.core.port import EARLY_MAX, NO_OPEN_VIEW, Port

HERE, THERE = SiteId(1), SiteId(2)
MEMBERS = (HERE, THERE)


class Viewless(Message, frozen=True, gc=False, array_like=True, tag=200):
    """A message that belongs to no view."""

    viewless: ClassVar[bool] = True


class BarePort(Port):
    """A port with neither network nor clock."""

    def __init__(self) -> None:
        super().__init__(HERE, ONLY_GROUP, 0, Random(0), 1000)
        self.sent: list[Message] = []
        self.traced: list[Kind] = []

    def clock(self) -> Reading:
        return Reading(0, 0)

    def heard_ns(self, site: SiteId) -> int | None:
        return None

    def send(self, targets: Targets, message: Message) -> None:
        self.sent.append(message)

    def set_timer(self, layer: Layer, key: int, delay_ns: int) -> None: ...
    def cancel_timer(self, layer: Layer, key: int) -> None: ...
    def gauge(self, gauge: int, value: int, subject: Cast | None = None) -> None: ...

    def trace(self, kind: Kind, subject: Cast | None = None, value: int = 0) -> None:
        self.traced.append(kind)

    def enter(self, view_id: int) -> None:
        self.install(View(view_id, MEMBERS))
        self.finish()
        self.resume()
        self.finish()


class Noting(Layer):
    """Notes what it is called with; for some messages it does more."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name = name
        self.notes = notes

    def end_turn(self) -> None:
        self.notes.append(f"{self.name} end_turn")

    def install(self, view: View) -> None:
        self.notes.append(f"{self.name} install {view.view_id}")

    def resume(self) -> None:
        self.notes.append(f"{self.name} resume")
        if self.name == "bottom":
            self.above.resume()


class Bottom(Noting):
    """Takes messages: number 7 asks for the end of the turn, 100 + n installs view n and resumes."""

    def handlers(self) -> dict[type[Message], Handler]:
        return {Cast: self.on_cast, Viewless: lambda _source, _message: self.notes.append("viewless")}

    def on_cast(self, source: SiteId, cast: Cast) -> None:
        self.notes.append(f"{source}:{cast.number}")
        if cast.number == 7:
            self.host.turn_due = True
        elif cast.number > 100:
            self.host.install(View(cast.number - 100, MEMBERS))
            self.host.resume()


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def port(notes: list[str]) -> BarePort:
    made = BarePort()
    made.stack = Stack(made, Noting("top", notes), Bottom("bottom", notes))
    return made


def cast(number: int) -> Cast:
    return Cast(THERE, number)


def test_views_are_installed_and_resumed_bottom_first(port: BarePort, notes: list[str]) -> None:
    port.enter(1)
    told = [note for note in notes if "end_turn" not in note]
    assert told == ["bottom install 1", "top install 1", "bottom resume", "top resume"]
    assert port.view_id == port.open_id == 1 and port.stack.view.view_id == 1


def test_before_the_first_view_everything_waits(port: BarePort, notes: list[str]) -> None:
    port.take(THERE, 1, cast(1))
    assert notes == [] and len(port.early) == 1
    port.enter(1)
    assert [note for note in notes if "end_turn" not in note][-1] == "2:1" and not port.early


@pytest.mark.parametrize(
    ("state", "view_id", "fate"),
    [
        ("open", 2, "taken"),
        ("open", 1, "dropped"),
        ("open", 3, "waits"),
        ("open", 9, "waits"),
        ("open", 0, "dropped"),
        ("frozen", 1, "dropped"),
        ("frozen", 2, "waits"),  # and is dropped with the next install
        ("frozen", 3, "waits"),
        ("frozen", 0, "dropped"),
        ("installed", 1, "dropped"),
        ("installed", 2, "waits"),
        ("installed", 3, "waits"),
        ("installed", 0, "dropped"),
    ],
)
def test_fates_of_a_message(port: BarePort, notes: list[str], state: str, view_id: int, fate: str) -> None:
    port.enter(1)
    port.install(View(2, MEMBERS))
    port.finish()
    if state != "installed":
        port.resume()
        port.finish()
    if state == "frozen":
        port.freeze()
    notes.clear()
    port.take(THERE, view_id, cast(1))
    assert (notes == ["2:1"], len(port.early) == 1) == (fate == "taken", fate == "waits")


@pytest.mark.parametrize("shut", [False, True])
def test_a_viewless_type_is_always_taken_and_no_other_passes_for_one(
    port: BarePort, notes: list[str], shut: bool
) -> None:
    """Were a frame taken for the 0 in its head alone, a frozen port would hand up what other survivors lack."""
    port.enter(1)
    if shut:
        port.freeze()
    notes.clear()
    port.take(THERE, 0, Viewless())
    port.take(THERE, 0, cast(1))
    assert notes == ["viewless"] and not port.early


def test_what_waits_is_bounded_and_what_comes_then_is_counted(port: BarePort, notes: list[str]) -> None:
    port.enter(1)
    for _ in range(EARLY_MAX + 3):
        port.take(THERE, 2, cast(1))
    assert len(port.early) == EARLY_MAX and port.overflow_count == 3
    notes.clear()
    port.enter(2)
    assert notes.count("2:1") == EARLY_MAX and not port.early


def test_installing_drops_what_is_older_and_keeps_what_is_newer(port: BarePort, notes: list[str]) -> None:
    port.enter(1)
    port.freeze()
    for view_id in (1, 2, 3, 4):
        port.take(THERE, view_id, cast(view_id))
    port.install(View(3, MEMBERS))
    port.finish()
    assert [view_id for _, view_id, _ in port.early] == [3, 4]
    notes.clear()
    port.resume()
    port.finish()
    assert [note for note in notes if note.startswith("2:")] == ["2:3"]
    assert [view_id for _, view_id, _ in port.early] == [4]


def test_an_event_is_followed_by_end_of_turn_install_resume_and_what_waited(port: BarePort, notes: list[str]) -> None:
    port.enter(1)
    port.take(THERE, 2, cast(7))
    port.take(THERE, 2, cast(8))
    notes.clear()
    port.take(THERE, 1, cast(102))
    port.finish()
    end = ["top end_turn", "bottom end_turn"]
    installed = ["bottom install 2", "top install 2", "bottom resume", "top resume"]
    assert notes == ["2:102", *end, *installed, "2:7", *end, "2:8", *end]


def test_an_early_message_may_install_the_next_view(port: BarePort, notes: list[str]) -> None:
    port.enter(1)
    port.take(THERE, 2, cast(103))
    port.take(THERE, 2, cast(1))  # of a view that is over when its turn comes
    port.take(THERE, 3, cast(2))
    notes.clear()
    port.enter(2)
    assert [note for note in notes if note.startswith("2:")] == ["2:103", "2:2"]
    assert port.view_id == port.open_id == 3 and not port.early


def test_between_install_and_resume_a_port_is_shut(port: BarePort) -> None:
    port.enter(1)
    port.install(View(2, MEMBERS))
    assert port.view_id == 1, "an effect is carried out after the event"
    port.finish()
    assert port.view_id == 2 and port.open_id == NO_OPEN_VIEW


def test_a_wrong_message_that_waited_is_rejected_like_any_other(port: BarePort) -> None:
    class Strange(Message, frozen=True, gc=False, array_like=True, tag=201):
        """Owned by no layer."""

    port.enter(1)
    port.take(THERE, 2, Strange())
    port.enter(2)
    assert port.traced == [Kind.REJECT]


def test_numbers_of_a_later_incarnation_are_higher() -> None:
    first, second = Port(HERE, ONLY_GROUP, 0, Random(0), 0), Port(HERE, ONLY_GROUP, 1, Random(0), 0)
    assert [first.next_number(), first.next_number()] == [1, 2]
    assert second.next_number() == (1 << 32) + 1
