"""The other sites: the life of each that is taken, when it was last heard, and what is wrong with it.

Problem: transports number frames from 1 in a view, so the frames of a site that is started again under its old address
look like duplicates: what it sends is dropped, and what it should get counts as acknowledged, without a sign. A peer
that runs another stack is as silent.

Idea: every datagram names the life of its sender, and a site takes messages of the *first* life of a peer that it has
heard. Any other life is answered with a Refusal, and the refused site fails. Where membership knows lives itself
(`renewable`), every life is taken: a number in a head proves nothing, and one that was forged, or a clock that was set
back, would shut out the true life. Peers of different runs exchange Hellos; both ends then log the difference.

Invariants: a life counts as heard with its first messages, not by its greeting, so that a site that died before it took
part may be started again. Refusals name the life that they refuse; one that is meant for an earlier process of this
address changes nothing. A datagram from an unknown address has no effect but on the log.

Bounds: one answer per peer and `ANSWER_NS`, one for all unknown addresses together; `LOGGED_MAX` log lines per peer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.message import SiteId
from isthmus.live.net.framing import (
    ANSWER,
    GREET,
    HELLO,
    MESSAGES,
    REFUSAL,
    SEALED,
    VERSION,
    Foreign,
    Head,
    OtherVersion,
    head,
    read_head,
)
from isthmus.live.net.hello import Hello, Refusal, difference, encode_body, read_hello, read_refusal

ANSWER_NS = 1_000_000_000
AHEAD_NS = 86_400_000_000_000  # a calendar may be off by a day
SILENT_NS = 3_000_000_000
LOGGED_MAX = 8
STRANGERS = SiteId(-1)  # stands for all unknown addresses
logger = logging.getLogger("isthmus.live")

Outlet = Callable[[SiteId, bytes], None]  # a datagram to a site


class Peers:
    """The other sites, as one site knows them."""

    def __init__(
        self,
        site: SiteId,
        life: int,
        token: int,
        names: Sequence[str],
        hello: Hello,
        outlet: Outlet,
        now_ns: int,
        renewable: bool = False,
    ) -> None:
        self.site = site
        self.life = life
        self.token = token
        self.names = names
        self.hello = hello
        self.outlet = outlet
        self.renewable = renewable  # all lives of a site are taken
        self.started_ns = now_ns
        self.lives: dict[SiteId, int] = {}  # of each site, the one whose messages are taken
        self.expected: dict[SiteId, bytes] = {}  # the head of such a datagram of each site, byte for byte
        self.heard: dict[SiteId, int] = {}  # when anything last came of that life, on the monotonic clock
        self.silent: dict[SiteId, int] = {}  # silent sites with unacknowledged data: when last heard
        self.troubles: dict[SiteId, str] = {}  # what is wrong with a site, as a phrase that follows its name
        self.answered_ns: dict[SiteId, int] = {}
        self.logged: dict[SiteId, list[str]] = {}  # what was logged of a site, each once
        self.refused_why = ""  # why the others refuse this site; "" while they do not
        self.foreign_count = 0  # datagrams of another program, version or run
        self.garbled_count = 0  # datagrams of this run that cannot be parsed
        self.refused_count = 0  # datagrams of a later life of a site
        self.stale_count = 0  # datagrams of an earlier life

    def name(self, site: SiteId) -> str:
        return f"site {self.names[site]}" if 0 <= site < len(self.names) else f"site {site}"

    # Receiving

    def admits(self, source: SiteId, datagram: bytes, now_ns: int) -> bool:
        """Whether a datagram from the address of a site has messages to be taken; otherwise handle it."""
        try:
            found = read_head(datagram)
            if found.kind in (SEALED, GREET, ANSWER):
                self.foreign_count += 1
                self.note_trouble(source, "seals its datagrams, here there is no key")
            elif found.site != source:
                raise Foreign(f"a datagram of site {found.site}")
            elif found.kind == HELLO:
                self.on_hello(source, found, read_hello(datagram), now_ns)
            elif found.token != self.token:
                self.foreign_count += 1
                self.note_trouble(source, "is of another run")
                self.say_hello(source, now_ns, asks=True)
            elif found.kind == REFUSAL and not self.renewable:
                self.on_refusal(source, read_refusal(datagram))
            elif found.kind == MESSAGES and self.is_known_life(source, found.life, now_ns):
                self.heard[source] = now_ns
                self.expected[source] = datagram[: len(self.head(MESSAGES))]
                return True
            elif found.kind == REFUSAL:
                self.foreign_count += 1  # membership that knows lives sends none: forged, or of another program
        except OtherVersion as error:
            self.foreign_count += 1
            self.note_trouble(source, f"speaks version {error.version} of the wire format, here version {VERSION}")
            self.say_hello(source, now_ns, asks=False)
        except Foreign:
            self.foreign_count += 1
        except RemoteError:
            self.garbled_count += 1
        return False

    def is_known_life(self, source: SiteId, life: int, now_ns: int) -> bool:
        """Whether this is the life of a site whose messages are taken; the first one heard is."""
        known = self.lives.get(source)
        if not self.renewable and life > self.life + now_ns - self.started_ns + AHEAD_NS:
            # taken, it would shut out all true lives
            self.foreign_count += 1
            self.note_trouble(source, f"claims to have started at {moment(life)}, which is in the future")
            return False
        if known is None or self.renewable:
            self.lives[source] = max(life, known or 0)
            if source not in self.heard:
                logger.info("%s is heard", self.name(source))
            elif known is not None and life > known:
                logger.info("%s is heard in a life that began at %s", self.name(source), moment(life))
        elif life != known:
            self.refuse(source, life, known, now_ns)
            return False
        self.troubles.pop(source, None)
        return True

    def refuse(self, source: SiteId, life: int, known: int, now_ns: int) -> None:
        """Refuse a life of a site that was started again."""
        if life > known:
            self.refused_count += 1
            self.note_trouble(
                source, f"was started again at {moment(life)} and is refused; its life of {moment(known)} is known here"
            )
        else:
            self.stale_count += 1
        if self.may_answer(source, now_ns):
            self.outlet(source, self.head(REFUSAL) + encode_body(Refusal(life, known)))

    def on_refusal(self, source: SiteId, refusal: Refusal) -> None:
        if refusal.life != self.life:
            self.stale_count += 1
            return
        if not self.refused_why:
            self.refused_why = (
                f"{self.name(source)} refuses this site, {self.name(self.site)}, which was started again at "
                f"{moment(self.life)}: it knows its life of {moment(refusal.known)}. Nothing sent from here arrives. "
                f"Start all sites again"
            )
            logger.error("%s", self.refused_why)

    def on_hello(self, source: SiteId, found: Head, hello: Hello, now_ns: int) -> None:
        """Note a site of this run as present, or how a site of another run differs."""
        if found.token != self.token:
            self.foreign_count += 1
            self.note_trouble(source, difference(self.hello, hello))
        else:
            known = self.lives.get(source)
            if known is not None and found.life != known and not self.renewable:
                self.refuse(source, found.life, known, now_ns)
                return
            if source not in self.heard:
                logger.info("%s is present", self.name(source))
            self.heard[source] = now_ns
        if hello.asks:
            self.say_hello(source, now_ns, asks=False)

    def stranger(self, address: str, datagram: bytes, now_ns: int) -> bytes | None:
        """Note a datagram from an address that no site has; return the answer, if any."""
        self.foreign_count += 1
        try:
            found = read_head(datagram)
            hello = read_hello(datagram) if found.kind == HELLO else None
        except RemoteError:
            return None
        if found.site != self.site and 0 <= found.site < len(self.names):
            text = f"sends from {address}"
            if found.site < len(self.hello.addresses):
                text += f", here it is at {self.hello.addresses[found.site]}"
            if hello is not None and (hello.site, hello.topology) != (self.names[found.site], self.hello.topology):
                text = f"at {address} is {hello.site} of the topology {hello.topology} there"
            self.note_trouble(found.site, text)
        wanted = hello.asks if hello is not None else found.kind == MESSAGES
        if not wanted or not self.may_answer(STRANGERS, now_ns):
            return None
        return self.hello_datagram(asks=hello is None)

    # Sending

    def head(self, kind: int) -> bytes:
        return head(self.site, self.life, self.token, kind)

    def hello_datagram(self, asks: bool) -> bytes:
        own = self.hello
        return self.head(HELLO) + encode_body(own if own.asks is asks else msgspec.structs.replace(own, asks=asks))

    def greet(self) -> None:
        """Greet all other sites, and ask for their greetings."""
        for number in range(len(self.names)):
            if number != self.site:
                self.outlet(SiteId(number), self.hello_datagram(asks=True))

    def say_hello(self, target: SiteId, now_ns: int, asks: bool) -> None:
        if self.may_answer(target, now_ns):
            self.outlet(target, self.hello_datagram(asks))

    def may_answer(self, target: SiteId, now_ns: int) -> bool:
        """Whether a site may be answered again: a stream of wrong datagrams is not to cause a stream of answers."""
        last = self.answered_ns.get(target)
        if last is not None and now_ns - last < ANSWER_NS:
            return False
        self.answered_ns[target] = now_ns
        return True

    def note_trouble(self, site: SiteId, text: str) -> None:
        """Note what is wrong with a site, and log it once; "another run" is the least specific."""
        vague = text == "is of another run"
        if vague and site in self.troubles:
            return
        self.troubles[site] = text
        self.expected.pop(site, None)  # a good datagram ends the trouble, and must be looked at for that
        logged = self.logged.setdefault(site, [])
        if not vague and text not in logged and len(logged) < LOGGED_MAX:
            logged.append(text)
            logger.error("%s %s", self.name(site), text)

    # Silence

    def watch(self, owed: Iterable[SiteId], now_ns: int) -> None:
        """Log the sites with unacknowledged data that fall silent, and those that are heard again."""
        for site in list(self.silent):
            if self.heard.get(site, self.started_ns) != self.silent[site]:
                del self.silent[site]
                logger.info("%s is heard again", self.name(site))
        for site in owed:
            last = self.heard.get(site, self.started_ns)
            if site != self.site and site not in self.silent and now_ns - last > SILENT_NS:
                self.silent[site] = last
                logger.warning("%s silent with unacknowledged data: it %s", self.name(site), self.since(site, now_ns))

    def since(self, site: SiteId, now_ns: int) -> str:
        """When a site was last heard, and what is wrong with it, as a phrase."""
        last = self.heard.get(site)
        if last is None:
            text = f"has not been heard in {(now_ns - self.started_ns) / 1e9:.1f} s"
        else:
            text = f"was last heard {(now_ns - last) / 1e9:.1f} s ago"
        return f"{text} ({self.name(site)} {self.troubles[site]})" if site in self.troubles else text


def moment(life: int) -> str:
    """The time at which a life began, as text; no number from the network is too large."""
    try:
        return datetime.fromtimestamp(life / 1e9).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        return f"time {life}"
