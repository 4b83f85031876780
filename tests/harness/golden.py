"""The rig that golden scripts drive: any named stack, with an application that reads at once or on command.

Besides the named stacks there is `couriers`: token-site where some sites may carry messages of other authors. Stacks
that relay are given `lans=`, those of composed groups `composed=paired`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from tests.harness.recording import RecordingPort
from tests.harness.script_blocks import parse_sites

from isthmus.core.layer import Finality, Host, Layer, Stack
from isthmus.core.message import Author, Carried, Cast, GroupId, Message, SiteId, Targets
from isthmus.protocols.application import Application
from isthmus.protocols.causal.options import CausalOptions
from isthmus.protocols.participants.ordered import Participants
from isthmus.protocols.participants.wire import ParticipantView, Speech
from isthmus.protocols.routing.calculus.model import Composition, Igp, OrderingDomain, ProcessGroup, RouterSpec
from isthmus.protocols.routing.options import RouterOptions
from isthmus.protocols.routing.process import ComposedProcess
from isthmus.protocols.routing.router import Router
from isthmus.protocols.routing.routes import CompositionRoutes, site_names
from isthmus.protocols.total.token_site import TokenSite
from isthmus.protocols.transport.base import Transport
from isthmus.protocols.transport.credit import Credit
from isthmus.protocols.transport.reliable.reliable import Reliable
from isthmus.stacks.registry import STACKS, StackOptions
from isthmus.topology.gateways.lans import Lans

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))
STORIES = sorted((Path(__file__).parent / "scripts_many").glob("*.txt"))


class Couriers(Layer):
    """Accepts messages of other groups' authors from the sites that are couriers."""

    __slots__ = ("couriers",)

    def __init__(self, couriers: Targets) -> None:
        self.couriers = couriers

    def accepts_author(self, courier: SiteId, carried: Carried[Any]) -> bool:
        return courier in self.couriers and carried.author is not None and carried.author[0] != self.host.group


def lans_of_text(text: str) -> Lans:
    """LANs in a row: 0-1-2/3-4-5 are two of three sites, of which the last two are gateways; 2 is linked to 4."""
    sites = tuple(tuple(SiteId(int(site)) for site in lan.split("-")) for lan in text.split("/"))
    gateways = tuple(lan[-2:] for lan in sites)
    links = tuple((here[-1], there[0]) for here, there in pairwise(gateways))
    return Lans(tuple(f"lan{number}" for number in range(len(sites))), sites, gateways, links)


PAIRED = Composition(  # sites 0 and 1 in group 0, 2 and 3 in group 1; router 4, and router 5 with its replica 6
    "paired",
    (
        ProcessGroup("a", ("a0", "a1"), "fifo-total"),
        ProcessGroup("b", ("b0", "b1"), "fifo-total"),
    ),
    (RouterSpec("ra", ("a", "line")), RouterSpec("rb", ("b", "line"), 2)),
    (OrderingDomain("both", ("a", "b"), "fifo"),),
    (Igp("line", "fifo", "link"),),
)
ROUTERS: WeakKeyDictionary[object, Router] = WeakKeyDictionary()  # of each life of a site


def routing_layer(host: Host, composition: Composition) -> Layer:
    """The filters of a process, or one end of the router that all ports of a site share."""
    routes = CompositionRoutes(
        composition, {name: SiteId(number) for number, name in enumerate(site_names(composition))}
    )
    if host.site not in routes.router_of:
        return ComposedProcess(routes, RouterOptions())
    assert isinstance(host, RecordingPort)
    router = ROUTERS.setdefault(host.owner, Router(routes, host.site, RouterOptions()))
    return router.port(host.group)


class StackRig:
    """A named stack and its application."""

    def __init__(self, name: str, host: Host, options: Mapping[str, str], note: Callable[[str], None]) -> None:
        tables: dict[str, object] = {}
        for key, value in options.items():  # credit.window=4 -> {"credit": {"window": "4"}}
            table, _, leaf = key.rpartition(".")
            many = [item for item in value.split(",") if item] if "," in value else value  # 0, is a list of one
            (tables.setdefault(table, {}) if table else tables)[leaf] = many  # type: ignore[index]
        slow = tables.pop("reads", "at-once") == "on-command"
        snapshots = tables.pop("snapshots", "no") == "yes"
        self.note = note
        self.unread: deque[Cast] = deque()
        self.history: list[bytes] = []  # the payloads delivered finally: the state of the application
        self.application = Application(
            on_deliver=self.deliver,
            on_resume=lambda: note("resume"),
            auto_consume=not slow,
            on_state=(lambda: b",".join(self.history)) if snapshots else None,
            on_restore=self.restore if snapshots else None,
        )
        if name == "couriers":
            couriers = parse_sites(str(tables.pop("couriers")))
            self.stack = Stack(host, self.application, Couriers(couriers), Credit(), TokenSite(), Reliable())
        else:
            lans = tables.pop("lans", None)
            composed = tables.pop("composed", None)
            given = msgspec.convert(tables, StackOptions, strict=False)
            if composed is not None:
                given = msgspec.structs.replace(given, routing=routing_layer(host, PAIRED))
            if lans is not None:
                policy = msgspec.structs.asdict(given.causal) | {"lans": lans_of_text(str(lans))}
                given = msgspec.structs.replace(given, causal=CausalOptions(**policy))
            self.stack = STACKS[name].build(host, self.application, given)
        self.transport: Transport = self.stack.find(Transport)
        for layer in self.stack.layers:
            if isinstance(layer, Participants):
                layer.on_view, layer.on_message = self.tell_view, self.tell_speech

    def tell_view(self, view: ParticipantView) -> None:
        self.note(f"{view.group} view {view.number} [{' '.join(map(str, view.members))}]")

    def tell_speech(self, speech: Speech) -> None:
        self.note(f"{speech.group} hears {speech.sender} {speech.payload.decode()!r} in view {speech.view_number}")

    def participate(self, verb: str, group: str, words: Sequence[str]) -> None:
        layer = self.stack.find(Participants)
        if verb == "say":
            name, text = words
            layer.say(group, name, text.strip('"').encode())
        else:
            (name,) = words
            (layer.join if verb == "join" else layer.leave)(group, name)

    def deliver(self, cast: Cast, finality: Finality) -> None:
        if finality is Finality.FINAL:
            self.history.append(cast.payload)
            if not self.application.auto_consume:
                self.unread.append(cast)

    def restore(self, state: bytes) -> None:
        self.history = state.split(b",")
        self.note(f"restored {state!r}")

    def submit(self, payload: bytes, destinations: Targets) -> None:
        self.application.cast(payload, destinations)

    def multicast(self, payload: bytes, groups: Sequence[GroupId]) -> None:
        self.application.multicast(payload, groups)

    def carry(self, payload: bytes, author: Author) -> None:
        self.application.carry_on(payload, author)

    def forge(self, payload: bytes, author: Author) -> None:
        carried: Carried[Any] = Carried(self.stack.host.site, self.stack.host.next_number(), payload, (), author)
        self.application.below.submit(carried)

    def consume(self, count: int) -> None:
        for _ in range(count):
            self.application.below.consumed(self.unread.popleft())

    def block(self) -> None:
        self.transport.block()

    def absorb(self, origin: SiteId, frame: Message) -> None:
        self.transport.absorb(origin, frame)

    def unstable(self) -> dict[SiteId, dict[int, Message]]:
        members = self.transport.view.members
        return {origin: dict(frames) for origin in members if (frames := self.transport.unstable(origin))}
