"""A session between one life of this site and one of another: a key for each direction, and a replay window.

Invariants: a counter is used once, by whichever thread takes it; a counter is marked as seen only after the tag of its
datagram was verified, so that a forgery with a high counter moves nothing; what lies `WINDOW` below the highest counter
is old.

Bounds: a session is worn after `RENEW_COUNT` datagrams or `RENEW_NS`, and is not used beyond `COUNT_MAX`.
"""

from __future__ import annotations

from itertools import count

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from isthmus.core.message import PACKET_HEAD_BYTES, SiteId
from isthmus.live.net.framing import HELLO, MESSAGES, SEALED, head
from isthmus.live.seal.wire import (
    CONTROL_HEAD_BYTES,
    CONTROL_HEADS,
    CONTROL_KINDS,
    HEAD_BYTES,
    SealError,
    start,
)

WINDOW = 8_192  # counters: datagrams may overtake each other by so many
RENEW_COUNT = 1 << 22
RENEW_NS = 300_000_000_000
COUNT_MAX = 1 << 32
COUNTER_BYTES = 8
NONCE_START = bytes(4)
CONTROL_START = CONTROL_HEADS[HELLO][:4]  # length and group of all control entries
NO_KIND = 255  # that nobody takes


class ReplayWindow:
    """The counters of a session that were seen."""

    __slots__ = ("highest", "seen")

    def __init__(self) -> None:
        self.highest = -1
        self.seen = bytearray(WINDOW)  # by counter modulo WINDOW; those above `highest` are 0

    def is_new(self, counter: int) -> bool:
        """Whether a counter was not seen and is not too old to tell."""
        return counter > self.highest or (counter > self.highest - WINDOW and not self.seen[counter % WINDOW])

    def mark(self, counter: int) -> None:
        """Note a counter whose datagram was verified."""
        ahead = counter - self.highest
        if ahead > 0:
            if ahead >= WINDOW:
                self.seen = bytearray(WINDOW)
            elif ahead > 1:
                for skipped in range(self.highest + 1, counter):
                    self.seen[skipped % WINDOW] = 0
            self.highest = counter
        self.seen[counter % WINDOW] = 1


class Session:
    """One session, as one of its ends has it."""

    __slots__ = (
        "beginning",
        "counters",
        "index",
        "is_greeter",
        "key_id",
        "life",
        "made_ns",
        "opener",
        "sealer",
        "seals_start",
        "settled",
        "site",
        "token",
        "used_ns",
        "window",
        "worn",
    )

    def __init__(
        self,
        site: SiteId,
        life: int,
        token: int,
        key_id: bytes,
        index: int,
        peer_index: int,
        seal_key: bytes,
        open_key: bytes,
        made_ns: int,
        is_greeter: bool,
    ) -> None:
        self.site = site  # the other one
        self.life = life  # of it
        self.token = token  # of the run that it takes part in
        self.key_id = key_id  # of the cluster key that the session rests on
        self.index = index  # by which datagrams to this site name the session
        self.is_greeter = is_greeter  # this end began it, and renews it
        self.made_ns = made_ns
        self.used_ns = made_ns  # when something last came by it
        self.sealer, self.opener = AESGCM(seal_key), AESGCM(open_key)
        self.counters = count()  # taken by two threads
        self.window = ReplayWindow()
        self.worn = False  # to be renewed
        self.settled = False  # something came by it: the other end has it, too
        self.beginning = head(site, life, token, MESSAGES)  # of the clear datagrams that come by it
        self.seals_start = start(SEALED, peer_index, bytes(COUNTER_BYTES))[: HEAD_BYTES - COUNTER_BYTES]

    def seal(self, datagram: bytes) -> bytes:
        """A clear datagram, sealed anew at each call; no bytes where the session is spent."""
        number = next(self.counters)
        if number >= RENEW_COUNT:
            self.worn = True
            if number >= COUNT_MAX:
                return b""
        counter = number.to_bytes(COUNTER_BYTES, "big")
        beginning = self.seals_start + counter
        if not datagram or datagram[3] == MESSAGES:
            plain: bytes | memoryview = memoryview(datagram)[PACKET_HEAD_BYTES:]
        else:
            plain = CONTROL_HEADS[datagram[3]] + datagram[PACKET_HEAD_BYTES:]
        return beginning + self.sealer.encrypt(NONCE_START + counter, plain, beginning)

    def open(self, datagram: bytes) -> tuple[bytes, bytes]:
        """The head and the rest of the clear datagram in a sealed one; raises where it is not new, or not true."""
        beginning = datagram[:HEAD_BYTES]
        counter = beginning[HEAD_BYTES - COUNTER_BYTES :]
        number = int.from_bytes(counter, "big")
        if not self.window.is_new(number):
            raise SealError("replayed")
        try:
            plain = self.opener.decrypt(NONCE_START + counter, datagram[HEAD_BYTES:], beginning)
        except InvalidTag:
            raise SealError("forged") from None
        self.window.mark(number)
        if plain[:4] != CONTROL_START:
            return self.beginning, plain
        kind = CONTROL_KINDS.get(plain[:CONTROL_HEAD_BYTES], NO_KIND)
        return head(self.site, self.life, self.token, kind), plain[CONTROL_HEAD_BYTES:]
