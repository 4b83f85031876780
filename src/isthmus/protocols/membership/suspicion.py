"""Suspicion: which sites have been silent for too long (paper 000, section 2: FS).

Problem: a stopped site cannot announce it. Too short a time-out excludes sites that are merely slow; too long a one
delays all others. The right time-out differs from link to link, and changes.

Idea: heartbeats always flow, and any packet counts as a sign of life. A site is suspected once nothing has come from it
for T = clamp(1.25 P + h, floor, ceiling), where P is the longest gap between two *heartbeats* of this and the previous
ten minutes and h their period. Gaps of all traffic would not do: under load they are short, and the first lull would
then look like a death. Inside a LAN, heartbeats and bounds are short; over the WAN they are long. A site that its LAN
neighbours suspect is suspected elsewhere too, without waiting for the long bound: opinions travel with the heartbeats,
and at once when they change.

Heartbeats cost an idle group its packets and its wake-ups, so inside a LAN they are rare, and a site that is silent for
longer than one period is probed: it answers each `SilenceProbe` with a heartbeat. A lost heartbeat is then no silence,
so T allows for pauses alone: 1.25 (P - h) + h.

One instance serves all groups of a site. Suspicion may be wrong and is revoked by the next packet; no safety
property depends on it.

Invariants:
- a site that was never heard of is given T from the start of this one;
- the measured gaps of the links outlive a life of the site, as long as its process does;
- opinions sent are those formed here, never those of others, so no rumour feeds on itself;
- a site is suspected by the opinions of others only if every trusted neighbour of it, at least one, suspects it;
- after a pause of our own (the timer comes late by more than a period) no site is suspected until packets that
  waited meanwhile have had one period to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, Layer
from isthmus.core.message import Message, SiteId, Targets
from isthmus.core.units import NS_PER_MS
from isthmus.core.validation import DURATION_MAX_MS, PERIOD_MIN_MS, check_range

WINDOW_NS = 600_000_000_000  # P looks back over this window and the one before
MARGIN = 1.25
INCARNATION_MAX = (1 << 62) - 1
LOWER_MAX = 3  # heartbeats in a row that are no longer late ones: a higher number proves nothing by itself
PROBE_NS = 30 * NS_PER_MS  # between two probes of a silent site
ANSWER_NS = 50 * NS_PER_MS  # that a site on the LAN whose port seems closed has to answer a probe
NEAR, FAR, CHECK = 0, 1, 2  # timer keys: heartbeats on the LAN, over the WAN, the next deadline
Tell = Callable[[SiteId, bool], None]


class Timing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Heartbeat period and time-out bounds for sites of one kind."""

    heartbeat_ms: float
    floor_ms: float
    ceiling_ms: float
    probe_ms: float = 0.0  # a site that is silent for so long is probed; 0: never

    def __post_init__(self) -> None:
        check_range("heartbeat_ms", self.heartbeat_ms, PERIOD_MIN_MS, DURATION_MAX_MS)
        check_range("floor_ms", self.floor_ms, self.heartbeat_ms, DURATION_MAX_MS)
        check_range("ceiling_ms", self.ceiling_ms, self.floor_ms, DURATION_MAX_MS)
        if self.probe_ms:
            check_range("probe_ms", self.probe_ms, self.heartbeat_ms, self.floor_ms)

    def timeout_ns(self, gap_ns: int) -> int:
        """How long a silence may last, given the longest gap between heartbeats."""
        pause_ns = gap_ns - self.heartbeat_ms * NS_PER_MS if self.probe_ms else gap_ns
        wanted = MARGIN * pause_ns + self.heartbeat_ms * NS_PER_MS
        return round(min(max(wanted, self.floor_ms * NS_PER_MS), self.ceiling_ms * NS_PER_MS))

    def period_ns(self) -> int:
        return round(self.heartbeat_ms * NS_PER_MS)


LAN = Timing(heartbeat_ms=210, floor_ms=450, ceiling_ms=1200, probe_ms=260)
WAN = Timing(heartbeat_ms=200, floor_ms=1000, ceiling_ms=4000)


class Heartbeat(Message, frozen=True, gc=False, array_like=True, tag=40):
    """Shows that its sender is alive; names the sites that it suspects by its own observation."""

    viewless = True
    incarnation: int
    suspects: Targets = ()


class SilenceProbe(Message, frozen=True, gc=False, array_like=True, tag=39):
    """Asks for a heartbeat at once."""

    viewless = True


class Peer(msgspec.Struct, eq=False):
    """The record of one watched site."""

    timing: Timing
    near: bool  # on the same LAN
    incarnation: int = -1  # of the last heartbeat
    beat_ns: int = 0  # when that came
    gap_ns: int = 0  # the longest between two heartbeats of this window
    gap_before_ns: int = 0  # and of the one before
    lower_count: int = 0  # heartbeats of a lower life in a row
    opinions: Targets = ()  # the sites that it suspects
    suspected: bool = False  # by this site's own observation
    told: bool = False  # the opinion last given to the groups, opinions of others included
    probed_ns: int = 0  # when it was last probed
    refused_ns: int = 0  # when its port last refused a packet
    hinted_ns: int = 0  # when it did so first, with nothing heard since
    refused_count: int = 0  # how often in a row, with nothing heard in between

    def timeout_ns(self) -> int:
        return self.timing.timeout_ns(max(self.gap_ns, self.gap_before_ns))


class Suspicion(Layer):
    """Watches the other sites for all groups of this one."""

    __slots__ = (
        "check_ns",
        "cluster_of",
        "grace_ns",
        "lan",
        "pause_ns",
        "peers",
        "started_ns",
        "tell",
        "turned_ns",
        "wan",
        "watched",
    )
    timer_names = ("near", "far", "check")

    def __init__(
        self,
        cluster_of: Mapping[SiteId, int],
        tell: Tell,
        lan: Timing = LAN,
        wan: Timing = WAN,
        watched: Collection[SiteId] | None = None,
    ) -> None:
        self.cluster_of = cluster_of  # the LAN of every site that may matter
        self.watched = cluster_of if watched is None else watched  # those that share a group with this one
        self.tell = tell  # called with a site and whether it is suspected now
        self.lan = lan
        self.wan = wan
        self.pause_ns = min(lan.period_ns(), PROBE_NS)  # a timer that is later than this tells of a pause of our own
        self.peers: dict[SiteId, Peer] = {}

    def handlers(self) -> dict[type[Message], Handler]:
        return {Heartbeat: self.on_heartbeat, SilenceProbe: self.on_probe}

    def start(self) -> None:
        here = self.host.site
        for site, cluster in self.cluster_of.items():
            near = cluster == self.cluster_of[here]
            if site != here and site in self.watched:
                self.peers[site] = Peer(self.lan if near else self.wan, near)
        self.started_ns = self.turned_ns = self.host.now_ns
        self.check_ns = 0  # when the check timer is due
        self.grace_ns = 0  # after a pause of this process: until when no site is suspected
        for key in (NEAR, FAR):
            if self.targets(key == NEAR):
                self.host.set_timer(self, key, 0)
        self.arm_check()

    def inherit(self, earlier: Suspicion) -> None:
        """Take over the link measurements of an earlier life of this process; opinions are formed anew.

        Otherwise a site with bad links would begin each life with the shortest time-outs, suspect others wrongly, be
        excluded for it, and begin again, for ever.
        """
        self.turned_ns = earlier.turned_ns
        for site, peer in self.peers.items():
            known = earlier.peers.get(site)
            if known is not None:
                peer.gap_ns, peer.gap_before_ns = known.gap_ns, known.gap_before_ns
        self.arm_check()

    def targets(self, near: bool) -> Targets:
        return tuple([site for site, peer in self.peers.items() if peer.near == near])

    # Queries

    def is_suspected(self, site: SiteId) -> bool:
        """Whether a site is suspected here, by observation or by the opinions of its neighbours."""
        peer = self.peers.get(site)
        return peer is not None and (peer.suspected or self.given_up(site, peer))

    def suspects_us(self, site: SiteId) -> bool:
        """Whether a site has announced that it suspects this one."""
        peer = self.peers.get(site)
        return peer is not None and self.host.site in peer.opinions

    def reaches(self, site: SiteId, other: SiteId) -> bool:
        """Whether a site is not known to suspect another."""
        peer = self.peers.get(site)
        return peer is None or other not in peer.opinions

    def given_up(self, site: SiteId, peer: Peer) -> bool:
        """Whether all trusted neighbours of a remote site suspect it."""
        if peer.near:
            return False
        cluster = self.cluster_of[site]
        words = [
            site in other.opinions
            for number, other in self.peers.items()
            if number != site and self.cluster_of[number] == cluster and not other.suspected and other.incarnation >= 0
        ]
        return bool(words) and all(words)

    # Heartbeats

    def timer(self, key: int) -> None:
        if key == CHECK:
            self.check()
            return
        timing = self.lan if key == NEAR else self.wan
        self.host.set_timer(self, key, timing.period_ns())
        self.beat(self.targets(key == NEAR))
        self.review()

    def beat(self, targets: Targets) -> None:
        suspects = tuple([site for site, peer in self.peers.items() if peer.suspected])
        if targets:
            self.send(targets, Heartbeat(self.host.incarnation, suspects))

    def on_heartbeat(self, source: SiteId, word: Heartbeat) -> None:
        peer = self.peers.get(source)
        if peer is None or not 0 <= word.incarnation <= INCARNATION_MAX or len(word.suspects) >= len(self.cluster_of):
            raise RemoteError(f"site {source} is not watched, or sent an impossible heartbeat: {word}")
        if word.incarnation < peer.incarnation and peer.lower_count + 1 < LOWER_MAX:
            peer.lower_count += 1
            return  # late, of an earlier life
        now_ns = self.host.now_ns
        self.turn(now_ns)
        if word.incarnation == peer.incarnation:
            peer.gap_ns = max(peer.gap_ns, now_ns - peer.beat_ns)
        peer.incarnation, peer.beat_ns, peer.opinions = word.incarnation, now_ns, word.suspects
        peer.lower_count = 0
        self.review()

    def on_probe(self, source: SiteId, _probe: SilenceProbe) -> None:
        if source not in self.peers:
            raise RemoteError(f"site {source} probes, and is not watched")
        self.beat((source,))

    def turn(self, now_ns: int) -> None:
        """Begin a new window of gaps when the time has come."""
        if now_ns - self.turned_ns >= WINDOW_NS:
            self.turned_ns = now_ns
            for peer in self.peers.values():
                peer.gap_before_ns, peer.gap_ns = peer.gap_ns, 0

    def refused(self, site: SiteId) -> None:
        """Note that a site's port refuses packets: a hint that is probed, never a proof, as anybody can forge it.

        A second refusal within two heartbeats and no answer to the probe are suspicion, until something is heard; a
        restarting site refuses too.
        """
        peer, now_ns = self.peers.get(site), self.host.now_ns
        if peer is None:
            return
        heard_ns = self.host.heard_ns(site)
        silent = peer.refused_count > 0 and (heard_ns is None or heard_ns < peer.refused_ns)
        if silent and peer.refused_count > 1:
            return  # suspected for it already, until something is heard
        recent = now_ns - peer.refused_ns <= 2 * peer.timing.period_ns()
        if not (silent and recent):
            peer.refused_count = 0
        elif now_ns == peer.refused_ns:
            return  # of one turn: one hint
        peer.refused_ns, peer.refused_count = now_ns, peer.refused_count + 1
        if peer.refused_count == 1:
            peer.hinted_ns = now_ns
            self.send((site,), SilenceProbe())
        elif not peer.suspected:
            self.arm_check()

    # Deadlines

    def heard_ns(self, site: SiteId) -> int:
        """When a site was last heard; before that, when this one started."""
        heard_ns = self.host.heard_ns(site)
        return self.started_ns if heard_ns is None else max(self.started_ns, heard_ns)

    def deadline_ns(self, site: SiteId, peer: Peer) -> int:
        since_ns = self.heard_ns(site)
        if peer.refused_count > 1 and since_ns < peer.hinted_ns:
            return peer.hinted_ns + (ANSWER_NS if peer.near else peer.timing.period_ns())
        return since_ns + peer.timeout_ns()

    def probe_ns(self, site: SiteId, peer: Peer) -> int:
        """When a site is to be probed next."""
        silent_ns = self.heard_ns(site) + round(peer.timing.probe_ms * NS_PER_MS)
        return max(silent_ns, peer.probed_ns + PROBE_NS)

    def check(self) -> None:
        """Suspect sites whose deadline has passed, but not right after a pause of this process; probe silent ones."""
        if self.host.now_ns - self.check_ns > self.pause_ns:
            self.set_check(self.pause_ns)
            self.grace_ns = self.check_ns
            return
        self.review()
        now_ns = self.host.now_ns
        for site, peer in self.peers.items():
            if peer.timing.probe_ms and not peer.suspected and now_ns >= self.probe_ns(site, peer):
                peer.probed_ns = now_ns
                self.send((site,), SilenceProbe())
        self.arm_check()

    def arm_check(self) -> None:
        watched = [(site, peer) for site, peer in self.peers.items() if not peer.suspected]
        due = [self.deadline_ns(site, peer) for site, peer in watched]
        due += [self.probe_ns(site, peer) for site, peer in watched if peer.timing.probe_ms]
        if due:
            self.set_check(max(0, max(min(due), self.grace_ns) - self.host.now_ns))

    def set_check(self, delay_ns: int) -> None:
        self.check_ns = self.host.now_ns + delay_ns
        self.host.set_timer(self, CHECK, delay_ns)

    def review(self) -> None:
        """Form an opinion of every site; report changes to the groups, and to other sites at once."""
        now_ns, changed, trusted = self.host.now_ns, False, False
        late = now_ns - self.check_ns > self.pause_ns or now_ns < self.grace_ns
        for site, peer in self.peers.items():
            silent = now_ns >= self.deadline_ns(site, peer)
            if silent != peer.suspected and not (silent and late):
                peer.suspected, changed = silent, True
                trusted |= not silent
        for site, peer in self.peers.items():
            suspected = self.is_suspected(site)
            if suspected != peer.told:
                peer.told = suspected
                self.tell(site, suspected)
        if changed:
            self.beat(tuple(self.peers))
        if trusted:
            self.arm_check()
