"""The other sites: which life of each is heard, since when, and why one of them is not taken.

Problem: transports number frames from 1 in a view, so a site that is started again under its old address looks to the
others like one that repeats itself: what it sends is dropped, what it should get is thought acknowledged, and nobody
says so. A peer that runs another stack is as silent.

Idea: every datagram names the life of its sender, and each site takes messages of the *first* life of a peer that it
has heard. Any other life is refused with a datagram that says so, and the refused site fails. Where membership knows
lives itself (`renewable`), a later one takes the place of the earlier, which is dropped from then on. A peer of another
run is told what is run here, and asked for the same (`Hello`); both ends then name the difference.

Invariants: a life counts as heard with its first messages, not by its greeting, so that a site that died before it took
part may be started again. Refusals name the life that they refuse; one that is meant for an earlier process of this
address changes nothing. Nothing here is taken from a stranger but words for the log.

Bounds: one answer per peer and `ANSWER_NS`, one for all strangers together; `TOLD_MAX` log lines per peer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.message import SiteId
from isthmus.live.net.framing import HELLO, MESSAGES, REFUSAL, VERSION, Foreign, Head, OtherVersion, head, read_head
from isthmus.live.net.hello import Hello, Refusal, difference, encode_body, read_hello, read_refusal

ANSWER_NS = 1_000_000_000
AHEAD_NS = 86_400_000_000_000  # a calendar may be off by a day
SILENT_NS = 3_000_000_000
TOLD_MAX = 8
STRANGERS = SiteId(-1)  # as a peer that is answered
logger = logging.getLogger("isthmus.live")

Outlet = Callable[[SiteId, bytes], None]  # a datagram to a site


class Peers:
    """What one site knows of the others."""

    __slots__ = (
        *("answered_ns", "expected", "foreign_count", "garbled_count", "heard", "hello", "life", "lives", "names"),
        *(
            "outlet",
            "refused_count",
            "refused_why",
            "renewable",
            "silent",
            "site",
            "stale_count",
            "started_ns",
            "token",
        ),
        *("told", "troubles"),
    )

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
        self.renewable = renewable  # a later life of a site is taken in place of the earlier one
        self.started_ns = now_ns
        self.lives: dict[SiteId, int] = {}  # of each site, the one whose messages are taken
        self.expected: dict[SiteId, bytes] = {}  # the head of such a datagram of each site, byte for byte
        self.heard: dict[SiteId, int] = {}  # when anything last came of that life, on the monotonic clock
        self.silent: dict[SiteId, int] = {}  # those that are owed something and not heard: when last heard
        self.troubles: dict[SiteId, str] = {}  # why a site is not taken, in words that follow its name
        self.answered_ns: dict[SiteId, int] = {}
        self.told: dict[SiteId, list[str]] = {}  # what was logged of a site, each once
        self.refused_why = ""  # why the others do not take this site; "" while they do
        self.foreign_count = 0  # datagrams of another program, version or run
        self.garbled_count = 0  # datagrams of this run that did not come apart or decode
        self.refused_count = 0  # datagrams of a later life of a site
        self.stale_count = 0  # datagrams of an earlier life

    def name(self, site: SiteId) -> str:
        return f"site {self.names[site]}" if 0 <= site < len(self.names) else f"site {site}"

    # What comes

    def admits(self, source: SiteId, datagram: bytes, now_ns: int) -> bool:
        """Whether a datagram from a site's address has messages to be taken; if not, do what it calls for."""
        try:
            found = read_head(datagram)
            if found.site != source:
                raise Foreign(f"a datagram of site {found.site}")
            if found.kind == HELLO:
                self.on_hello(source, found, read_hello(datagram), now_ns)
            elif found.token != self.token:
                self.foreign_count += 1
                self.note_trouble(source, "is of another run")
                self.say_hello(source, now_ns, asks=True)
            elif found.kind == REFUSAL:
                self.on_refusal(source, read_refusal(datagram))
            elif found.kind == MESSAGES and self.is_known_life(source, found.life, now_ns):
                self.heard[source] = now_ns
                self.expected[source] = datagram[: len(self.head(MESSAGES))]
                return True
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
        if life > self.life + now_ns - self.started_ns + AHEAD_NS:  # taken, it would shut out all that are true
            self.foreign_count += 1
            self.note_trouble(source, f"says that it was started at {moment(life)}, which is not yet")
            return False
        if known is None or (self.renewable and life > known):
            self.lives[source] = life
            if source not in self.heard:
                logger.info("%s is heard", self.name(source))
            elif known is not None:
                logger.info("%s is heard in a life that began at %s", self.name(source), moment(life))
        elif life != known:
            self.refuse(source, life, known, now_ns)
            return False
        self.troubles.pop(source, None)
        return True

    def refuse(self, source: SiteId, life: int, known: int, now_ns: int) -> None:
        """Tell a site that was started again why nothing it sends is taken."""
        if life > known:
            self.refused_count += 1
            self.note_trouble(
                source, f"was started again at {moment(life)} and is refused; its life of {moment(known)} is known here"
            )
        else:
            self.stale_count += 1
        if not self.renewable and self.may_answer(source, now_ns):
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
        """Greet a site of this run; of another, note what is different there."""
        if found.token != self.token:
            self.foreign_count += 1
            self.note_trouble(source, difference(self.hello, hello))
        else:
            known = self.lives.get(source)
            if known is not None and (found.life < known if self.renewable else found.life != known):
                self.refuse(source, found.life, known, now_ns)
                return
            if source not in self.heard:
                logger.info("%s is there", self.name(source))
            self.heard[source] = now_ns
        if hello.asks:
            self.say_hello(source, now_ns, asks=False)

    def stranger(self, address: str, datagram: bytes, now_ns: int) -> bytes | None:
        """Take note of a datagram from an address that is none of the group's; what to answer, if anything."""
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

    # What is said

    def head(self, kind: int) -> bytes:
        return head(self.site, self.life, self.token, kind)

    def hello_datagram(self, asks: bool) -> bytes:
        own = self.hello
        return self.head(HELLO) + encode_body(own if own.asks is asks else msgspec.structs.replace(own, asks=asks))

    def greet(self) -> None:
        """Tell all others that this site is there, and ask who is."""
        for number in range(len(self.names)):
            if number != self.site:
                self.outlet(SiteId(number), self.hello_datagram(asks=True))

    def say_hello(self, target: SiteId, now_ns: int, asks: bool) -> None:
        if self.may_answer(target, now_ns):
            self.outlet(target, self.hello_datagram(asks))

    def may_answer(self, target: SiteId, now_ns: int) -> bool:
        """Whether a site was not answered just now: a stream of wrong datagrams is not a stream of answers."""
        last = self.answered_ns.get(target)
        if last is not None and now_ns - last < ANSWER_NS:
            return False
        self.answered_ns[target] = now_ns
        return True

    def note_trouble(self, site: SiteId, words: str) -> None:
        """Remember why a site is not taken, and log it once; that it is of another run says the least."""
        vague = words == "is of another run"
        if vague and site in self.troubles:
            return
        self.troubles[site] = words
        self.expected.pop(site, None)  # a good datagram ends the trouble, and must be looked at for that
        told = self.told.setdefault(site, [])
        if not vague and words not in told and len(told) < TOLD_MAX:
            told.append(words)
            logger.error("%s %s", self.name(site), words)

    # Silence

    def watch(self, owed: Iterable[SiteId], now_ns: int) -> None:
        """Log which of the sites that are owed something have fallen silent, and which are heard again."""
        for site in list(self.silent):
            if self.heard.get(site, self.started_ns) != self.silent[site]:
                del self.silent[site]
                logger.info("%s is heard again", self.name(site))
        for site in owed:
            last = self.heard.get(site, self.started_ns)
            if site != self.site and site not in self.silent and now_ns - last > SILENT_NS:
                self.silent[site] = last
                logger.warning("%s %s, and something is owed to it", self.name(site), self.since(site, now_ns))

    def since(self, site: SiteId, now_ns: int) -> str:
        """When a site was last heard, and what is wrong with it, in words."""
        last = self.heard.get(site)
        if last is None:
            words = f"has not been heard in {(now_ns - self.started_ns) / 1e9:.1f} s"
        else:
            words = f"was last heard {(now_ns - last) / 1e9:.1f} s ago"
        return f"{words} ({self.name(site)} {self.troubles[site]})" if site in self.troubles else words


def moment(life: int) -> str:
    """A life as the time at which it began; no number from the network is too large."""
    try:
        return datetime.fromtimestamp(life / 1e9).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        return f"time {life}"
