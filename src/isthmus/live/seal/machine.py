"""The sessions of one site with all others: who greets, who answers, what is held, when keys change.

Problem: a datagram is to be taken only if it is true and new, and meant for this life of this site; but sites start,
crash and come back at any time, keys change while they run, and a stranger must get no byte. Idea: a session belongs to
one life of each end and rests on fresh keys, so that nothing recorded earlier opens in it.

Per other site the machine is in one of four phases:

    CLOSED     no session, and nothing to send
    GREETING   no session: what is sent is held, and greetings leave, each with the next key
    OPEN       a session
    RENEWING   a session, and greetings for a newer one: it is old or worn, or does not rest on the first key

    from        to                   when
    CLOSED      GREETING             something is to be sent, or its sessions ended with a key
    CLOSED      OPEN                 a session that the other site began is confirmed
    GREETING    OPEN                 an answer came, or the other site's session is confirmed
    OPEN        RENEWING             the session is worn or silent, or its time is over, or another key is first now
    RENEWING    OPEN                 a newer session
    any         GREETING, CLOSED     keys are reloaded, and no session is left; a new life of this site begins

Both may greet at once; then there are two sessions, and both open. A session is used from the moment that the greeter
has the answer, and by the answerer once something came by it: greetings can be replayed, and whoever replays one has
not the keys of its session. For the same reason unconfirmed sessions have places of their own. An empty sealed datagram
confirms a session at once, and is answered by another; until something came by the session, the greeter repeats it, and
greets anew where that does not help: otherwise both would rest on different sessions where the first one is lost. Over
a long link both greet several times before an answer comes back: all those sessions are kept, as each end may seal with
any of them. An end that has ended the one in use drops what comes, without a sign; so where something is sent and
nothing comes, greetings leave again.

Greetings are checked in the order of cost: length, key, source, MAC, (life, time) later than any of that site, rate;
then come the curves. What does not pass is counted and dropped. A new life greets anew; sessions with an earlier life
of a site end when one with a later life is confirmed.

Bounds, per site: `CONFIRMED_MAX` sessions, of which the one goes by which nothing has come for longest;
`UNCONFIRMED_MAX` unconfirmed ones; `PENDING_MAX` greetings without an answer; `HELD_MAX` datagrams, of which the oldest
go; `GREETS_PER_S` greetings answered a second, `BURST` at once.

Effects are in `out`: what the owner sends after each call. Time comes in with calls, randomness by `random`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from hmac import compare_digest
from typing import NamedTuple, get_args

from isthmus.core.message import SiteId
from isthmus.core.units import NS_PER_S
from isthmus.live.net.framing import ANSWER, GREET, HEAD, MAGIC, SEALED, VERSION
from isthmus.live.seal.keys import ClusterKey, SealKeys
from isthmus.live.seal.noise import Answerer, Greeter
from isthmus.live.seal.session import RENEW_NS, Session
from isthmus.live.seal.status import SessionStatus
from isthmus.live.seal.wire import (
    ANSWER_BYTES,
    CLEAR_BYTES,
    GREET_BYTES,
    GREETING,
    HEAD_BYTES,
    MAC_BYTES,
    NOISE_BYTES,
    OVERHEAD_BYTES,
    REPLY,
    START,
    TAG_BYTES,
    TOKEN,
    DropReason,
    SealError,
    mac,
    start,
)

GREET_NS = 100_000_000  # to the second greeting; then twice as long each time,
GREETING_NS = 800_000_000  # at most, without a session,
RENEWING_NS = 10_000_000_000  # or with one
GRACE_NS = 30_000_000_000  # after which the answerer renews what the greeter did not
PENDING_NS = 10_000_000_000  # an answer is taken for so long
CONFIRM_MAX = 4  # times that a confirmation is repeated
CONFIRMED_MAX, UNCONFIRMED_MAX = 8, 4  # what both ends may greet before an answer comes back after 1.5 s
PENDING_MAX, HELD_MAX = 16, 64
SILENT_NS = 2_000_000_000  # without a datagram after one was sent: the other site may have ended what is used here
GREETS_PER_S, BURST = 5, 20
NS_PER_GREET = 1_000_000_000 // GREETS_PER_S
AHEAD_NS = 86_400_000_000_000  # a calendar may be off by a day
TROUBLE_NS = 1_000_000_000  # between two reports of one site
KEY_BYTES = 32
PROLOGUE = b"isthmus sealed 1"
SEALED_START, GREET_START = (START.pack(MAGIC, VERSION, kind, 0, bytes(8))[:4] for kind in (SEALED, GREET))
INDEX = slice(4, 8)  # of a head

RandomBytes = Callable[[int], bytes]
OnTrouble = Callable[[SiteId, str], None]  # a site, and a phrase that follows its name


class SealPhase(Enum):
    """What this site has with another one."""

    CLOSED = "closed"
    GREETING = "greeting"
    OPEN = "open"
    RENEWING = "renewing"


class PendingGreeting(NamedTuple):
    """A greeting without an answer."""

    site: SiteId
    key: ClusterKey
    noise: Greeter
    made_ns: int


class SealedPeer:
    """Another site, as the machine knows it."""

    __slots__ = (
        "asked_ns",
        "budget_ns",
        "confirmed",
        "due_ns",
        "heard_ns",
        "held",
        "identity",
        "pending",
        "phase",
        "seen",
        "site",
        "told_ns",
        "tries",
        "unconfirmed",
    )

    def __init__(self, site: SiteId) -> None:
        self.site = site
        self.identity = b""  # its public key; empty in the mode `key`
        self.seen = (0, 0)  # life and time of its last greeting that was answered
        self.budget_ns = BURST * NS_PER_GREET  # of greetings that may be answered,
        self.told_ns = -TROUBLE_NS  # when trouble was last reported
        self.begin()

    def begin(self) -> None:
        """Begin a life of this site."""
        self.phase = SealPhase.CLOSED
        self.confirmed: list[Session] = []  # the last one seals
        self.unconfirmed: list[Session] = []
        self.pending: dict[int, PendingGreeting] = {}  # by index, the oldest first
        self.held: deque[bytes] = deque(maxlen=HELD_MAX)
        self.due_ns = 0  # when `tick` has something to do; 0: never
        self.tries = 0  # greetings since the phase began
        self.heard_ns = 0  # when something last came,
        self.asked_ns = 0  # and when something was first sent after that


class SealMachine:
    """Seals what a site sends, and opens what comes."""

    def __init__(
        self, site: SiteId, names: Mapping[SiteId, str], keys: SealKeys, random: RandomBytes, on_trouble: OnTrouble
    ) -> None:
        self.site = site
        self.names = names  # of all sites
        self.random = random
        self.on_trouble = on_trouble
        self.life = self.token = self.started_ns = 0
        self.greeted_ns = 0  # the time of the last greeting
        self.budgeted_ns = 0  # when the budgets were last filled
        self.out: list[tuple[SiteId, bytes]] = []
        self.sessions: dict[bytes, Session] = {}  # by index, confirmed or not
        self.pending: dict[int, PendingGreeting] = {}  # of all sites, by index
        self.dropped: dict[DropReason, int] = dict.fromkeys(get_args(DropReason), 0)
        self.peers = {number: SealedPeer(number) for number in names if number != site}
        self.take_keys(keys)

    def take_keys(self, keys: SealKeys) -> None:
        self.keys = keys
        self.key_by_id = {key.id: key for key in keys.cluster}
        for peer in self.peers.values():
            peer.identity = keys.sites.get(self.names[peer.site], b"") if keys.identity else b""

    def begin_life(self, life: int, token: int, now_ns: int) -> None:
        """Begin a life of this site: all sessions are of the earlier one, and end."""
        self.life, self.token, self.started_ns = life, token, now_ns
        self.sessions.clear()
        self.pending.clear()
        self.out.clear()
        for peer in self.peers.values():
            peer.begin()
        key = self.random(KEY_BYTES)
        index = self.free_index()
        self.own = Session(self.site, life, token, b"", index, index, key, key, now_ns, True)
        self.add(self.own)

    # Sending

    def seal(self, target: SiteId, datagram: bytes, now_ns: int) -> bytes:
        """A clear datagram as it leaves; no bytes where it is held until there is a session."""
        peer = self.peers[target]
        if peer.confirmed:
            session = peer.confirmed[-1]
            if peer.phase is SealPhase.OPEN and (session.worn or is_silent(peer, now_ns)):
                self.become_renewing(peer, now_ns)
            return session.seal(datagram)
        peer.held.append(datagram)
        if peer.phase is SealPhase.CLOSED:
            self.become_greeting(peer, now_ns)
        return b""

    def seal_now(self, target: SiteId, datagram: bytes) -> bytes:
        """A clear datagram as it leaves; no bytes where there is no session. From any thread, and to this site, too."""
        if target == self.site:
            return self.own.seal(datagram)
        confirmed = self.peers[target].confirmed[-1:]
        return confirmed[0].seal(datagram) if confirmed else b""

    def tick(self, now_ns: int) -> None:
        """Greet, or confirm again, where that is due."""
        for peer in self.peers.values():
            if 0 < peer.due_ns <= now_ns:
                if peer.phase is not SealPhase.OPEN:
                    self.greet(peer, now_ns)
                elif peer.confirmed[-1].settled or peer.tries == CONFIRM_MAX:
                    self.become_renewing(peer, now_ns)
                else:
                    peer.tries += 1
                    peer.due_ns = now_ns + (GREET_NS << peer.tries)
                    self.out.append((peer.site, peer.confirmed[-1].seal(b"")))

    def deadline_ns(self) -> int | None:
        """When `tick` has something to do; None: not before another call."""
        return min([peer.due_ns for peer in self.peers.values() if peer.due_ns], default=None)

    # Phases

    def become_closed(self, peer: SealedPeer) -> None:
        peer.phase, peer.due_ns = SealPhase.CLOSED, 0

    def become_greeting(self, peer: SealedPeer, now_ns: int) -> None:
        assert not peer.confirmed
        peer.phase, peer.tries = SealPhase.GREETING, 0
        self.greet(peer, now_ns)

    def become_open(self, peer: SealedPeer, now_ns: int) -> None:
        """Use the newest session, first for what was held."""
        session = peer.confirmed[-1]
        peer.phase, peer.tries = SealPhase.OPEN, 0
        peer.heard_ns = now_ns
        peer.due_ns = self.renewal_ns(session, now_ns) if session.settled else now_ns + GREET_NS
        held, peer.held = peer.held, deque(maxlen=HELD_MAX)
        self.out += [(peer.site, session.seal(datagram)) for datagram in held]

    def become_renewing(self, peer: SealedPeer, now_ns: int) -> None:
        peer.phase, peer.tries = SealPhase.RENEWING, 0
        self.greet(peer, now_ns)

    def greet(self, peer: SealedPeer, now_ns: int) -> None:
        """Greet a site with the next key."""
        if self.keys.identity and not peer.identity:
            self.become_closed(peer)
            peer.held.clear()
            return
        key = self.keys.cluster[peer.tries % len(self.keys.cluster)]
        longest_ns = GREETING_NS if peer.phase is SealPhase.GREETING else RENEWING_NS
        peer.due_ns = now_ns + min(GREET_NS << min(peer.tries, 10), longest_ns)
        peer.tries += 1
        self.greeted_ns = max(self.greeted_ns + 1, now_ns)
        index = self.free_index()
        clear = start(GREET, self.site, key.id) + GREETING.pack(self.life, index, self.greeted_ns)
        noise = Greeter(key.psk, prologue(clear, peer.site), self.random(KEY_BYTES), self.keys.identity)
        static = KEY_BYTES + TAG_BYTES if self.keys.identity else 0
        payload = TOKEN.pack(self.token).ljust(NOISE_BYTES - KEY_BYTES - static - TAG_BYTES, b"\0")
        datagram = clear + noise.write(payload)
        self.out.append((peer.site, datagram + mac(key.mac_key, datagram)))
        if len(peer.pending) == PENDING_MAX:
            self.forget(peer, next(iter(peer.pending)))
        peer.pending[index] = self.pending[index] = PendingGreeting(peer.site, key, noise, now_ns)

    # Receiving

    def open(self, source: SiteId, datagram: bytes, now_ns: int) -> tuple[bytes, bytes] | None:
        """The head and the rest of the clear datagram in one that came from a site's address; None where none is."""
        try:
            if datagram[:4] != SEALED_START:
                self.on_other(source, datagram, now_ns)
                return None
            session = self.sessions.get(datagram[INDEX])
            if session is None:
                raise SealError("unknown")
            if session.site != source:
                raise SealError("source")
            if len(datagram) < OVERHEAD_BYTES:
                raise SealError("garbled")
            opened = session.open(datagram)
            session.used_ns = now_ns
            if source != self.site:
                self.peers[source].heard_ns = now_ns
        except SealError as error:
            self.dropped[error.reason] += 1
            return None
        if not session.settled and not self.settle(session, now_ns):
            return None
        if opened[1]:
            return opened
        if not session.is_greeter:
            self.out.append((source, session.seal(b"")))
        return None

    def on_other(self, source: SiteId, datagram: bytes, now_ns: int) -> None:
        """Take a greeting or an answer; say what is wrong with anything else of this program."""
        if len(datagram) < HEAD_BYTES or datagram[:2] != MAGIC:
            raise SealError("garbled")
        _, version, kind, index, key_id = START.unpack_from(datagram)
        peer = self.peers.get(source)
        if peer is None:
            raise SealError("source")
        if version != VERSION:
            self.note_trouble(peer, f"speaks version {version} of the wire format, here version {VERSION}", now_ns)
            raise SealError("garbled")
        if kind == GREET and len(datagram) == GREET_BYTES:
            self.on_greet(peer, index, key_id, datagram, now_ns)
        elif kind == ANSWER and len(datagram) == ANSWER_BYTES[bool(self.keys.identity)]:
            self.on_answer(peer, index, key_id, datagram, now_ns)
        elif kind not in (GREET, ANSWER) and len(datagram) >= HEAD.size:
            self.note_trouble(peer, "sends in clear, here datagrams are sealed", now_ns)
            raise SealError("clear")
        else:
            raise SealError("garbled")

    def note_stranger(self, datagram: bytes, address: str, now_ns: int) -> None:
        """Note a greeting by a key of ours from an address that no site has; it is not answered."""
        if len(datagram) != GREET_BYTES or datagram[:4] != GREET_START:
            return
        *_, site, key_id = START.unpack_from(datagram)
        key, peer = self.key_by_id.get(key_id), self.peers.get(site)
        if key is not None and peer is not None and is_authentic(key, datagram):
            self.note_trouble(peer, f"greets from {address}, which is not its address here", now_ns)

    def on_greet(self, peer: SealedPeer, site: int, key_id: bytes, datagram: bytes, now_ns: int) -> None:
        key = self.key_by_id.get(key_id)
        if key is None:
            self.note_trouble(peer, "greets with a key that is not in the key file here", now_ns)
            raise SealError("key")
        if site != peer.site:
            raise SealError("source")
        if not is_authentic(key, datagram):
            raise SealError("forged")
        life, index, time_ns = GREETING.unpack_from(datagram, HEAD_BYTES)
        if (life, time_ns) <= peer.seen:
            raise SealError("replayed")
        if life > self.life + now_ns - self.started_ns + AHEAD_NS:  # taken, it would shut out all true lives
            self.note_trouble(peer, "claims to have started in the future", now_ns)
            raise SealError("forged")
        self.spend(peer, now_ns)
        clear = datagram[:CLEAR_BYTES]
        noise = Answerer(key.psk, prologue(clear, self.site), self.keys.identity)
        payload = noise.read(datagram[CLEAR_BYTES:-MAC_BYTES])
        self.check_identity(peer, noise.greeter_identity, now_ns)
        own = self.free_index()
        answer = start(ANSWER, index, key_id)
        answer += noise.write(REPLY.pack(self.life, own, self.token), self.random(KEY_BYTES))
        there, back = noise.state.split()
        peer.seen = (life, time_ns)
        (token,) = TOKEN.unpack_from(payload)
        session = Session(peer.site, life, token, key_id, own, index, back, there, now_ns, False)
        self.add(session)
        peer.unconfirmed.append(session)
        if len(peer.unconfirmed) > UNCONFIRMED_MAX:
            self.end(peer.unconfirmed.pop(0))
        self.out.append((peer.site, answer + mac(key.mac_key, answer)))

    def on_answer(self, peer: SealedPeer, index: int, key_id: bytes, datagram: bytes, now_ns: int) -> None:
        pending = self.pending.get(index)
        if pending is None or pending.key.id != key_id or now_ns - pending.made_ns > PENDING_NS:
            raise SealError("unknown")
        if pending.site != peer.site:
            raise SealError("source")
        if not is_authentic(pending.key, datagram):
            raise SealError("forged")
        payload, identity, state = pending.noise.read(datagram[HEAD_BYTES:-MAC_BYTES])
        self.check_identity(peer, identity, now_ns)
        life, peer_index, token = REPLY.unpack(payload)
        there, back = state.split()
        for older in list(peer.pending):
            self.forget(peer, older)
            if older == index:
                break
        session = Session(peer.site, life, token, key_id, index, peer_index, there, back, now_ns, True)
        self.add(session)
        self.out.append((peer.site, session.seal(b"")))
        self.confirm(session, now_ns)

    def check_identity(self, peer: SealedPeer, found: bytes, now_ns: int) -> None:
        if found != peer.identity or (self.keys.identity and not found):
            self.note_trouble(peer, "has another identity than the key file here gives it", now_ns)
            raise SealError("forged")

    def spend(self, peer: SealedPeer, now_ns: int) -> None:
        """Take an answer out of the budget of a site."""
        passed_ns, self.budgeted_ns = max(0, now_ns - self.budgeted_ns), now_ns
        for other in self.peers.values():
            other.budget_ns = min(other.budget_ns + passed_ns, BURST * NS_PER_GREET)
        if peer.budget_ns < NS_PER_GREET:
            raise SealError("limited")
        peer.budget_ns -= NS_PER_GREET

    def note_trouble(self, peer: SealedPeer, text: str, now_ns: int) -> None:
        if now_ns - peer.told_ns >= TROUBLE_NS:
            peer.told_ns = now_ns
            self.on_trouble(peer.site, text)

    # Sessions

    def free_index(self) -> int:
        """An index that names no session and no greeting."""
        while True:
            drawn = self.random(4)
            index = int.from_bytes(drawn, "big")
            if index and drawn not in self.sessions and index not in self.pending:
                return index

    def add(self, session: Session) -> None:
        self.sessions[session.index.to_bytes(4, "big")] = session

    def end(self, session: Session) -> None:
        del self.sessions[session.index.to_bytes(4, "big")]

    def forget(self, peer: SealedPeer, index: int) -> None:
        """Forget a greeting: an answer to it is no longer taken."""
        del peer.pending[index], self.pending[index]

    def settle(self, session: Session, now_ns: int) -> bool:
        """Note that the other end has a session; return whether it is used."""
        session.settled = True
        if session.is_greeter:
            peer = self.peers.get(session.site)
            if peer is not None and peer.confirmed[-1] is session and peer.phase is SealPhase.OPEN:
                peer.due_ns = self.renewal_ns(session, now_ns)
            return True
        return self.confirm(session, now_ns)

    def renewal_ns(self, session: Session, now_ns: int) -> int:
        """When a session is to be renewed."""
        if not session.is_greeter:
            return session.made_ns + RENEW_NS + GRACE_NS
        is_first = session.key_id == self.keys.cluster[0].id
        return session.made_ns + RENEW_NS if is_first else now_ns + RENEWING_NS

    def confirm(self, session: Session, now_ns: int) -> bool:
        """Use a session that the other end has, too, unless it is of an earlier life; those of earlier lives end."""
        peer = self.peers[session.site]
        if session in peer.unconfirmed:
            peer.unconfirmed.remove(session)
        if peer.confirmed and session.life < peer.confirmed[-1].life:
            self.end(session)
            return False
        kept = [other for other in peer.confirmed if other.life == session.life]
        if len(kept) == CONFIRMED_MAX:  # the eldest may be the one that the other site still seals with
            kept.remove(min(kept, key=lambda other: other.used_ns))
        for other in peer.confirmed:
            if other not in kept:
                self.end(other)
        peer.confirmed = [*kept, session]
        self.become_open(peer, now_ns)
        return True

    def reload(self, keys: SealKeys, now_ns: int) -> None:
        """Take other keys: what rests on one that is gone ends, and sessions of another than the first are renewed."""
        self.take_keys(keys)
        for peer in self.peers.values():
            gone = keys.identity and not peer.identity
            for session in [*peer.confirmed, *peer.unconfirmed]:
                if gone or session.key_id not in self.key_by_id:
                    self.end(session)
            had = bool(peer.confirmed)
            peer.confirmed = [one for one in peer.confirmed if one.index.to_bytes(4, "big") in self.sessions]
            peer.unconfirmed = [one for one in peer.unconfirmed if one.index.to_bytes(4, "big") in self.sessions]
            for index, pending in list(peer.pending.items()):
                if gone or pending.key.id not in self.key_by_id:
                    self.forget(peer, index)
            if not peer.confirmed and (had or peer.phase is SealPhase.GREETING):
                self.become_greeting(peer, now_ns)
            elif peer.confirmed and peer.confirmed[-1].key_id != keys.cluster[0].id:
                self.become_renewing(peer, now_ns)

    def status(self, now_ns: int) -> list[SessionStatus]:
        """What this site has with each other one."""
        found = []
        for peer in self.peers.values():
            last = peer.confirmed[-1] if peer.confirmed else None
            life, key, made_ns = (last.life, last.key_id.hex(), last.made_ns) if last else (0, "", now_ns)
            name, age_s = self.names[peer.site], (now_ns - made_ns) / NS_PER_S
            found.append(SessionStatus(name, peer.phase.value, life, key, age_s, len(peer.held)))
        return found


def is_silent(peer: SealedPeer, now_ns: int) -> bool:
    """Whether nothing has come for long after something was sent, as now."""
    if peer.heard_ns >= peer.asked_ns:
        peer.asked_ns = now_ns
    return now_ns - peer.asked_ns > SILENT_NS


def is_authentic(key: ClusterKey, datagram: bytes) -> bool:
    """Whether a greeting or an answer has the MAC of a key."""
    return compare_digest(mac(key.mac_key, datagram[:-MAC_BYTES]), datagram[-MAC_BYTES:])


def prologue(clear: bytes, answerer: int) -> bytes:
    """What both ends must agree on: the protocol, the sites, and all of the greeting that is in clear."""
    return PROLOGUE + answerer.to_bytes(4, "big") + clear
