"""Readings of the sealed protocol that look right and are wrong; each is found by a test of the sessions."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from isthmus.core.message import SiteId
from isthmus.live.net.framing import MESSAGES, SEALED, head
from isthmus.live.seal.keys import SealKeys
from isthmus.live.seal.machine import OnTrouble, RandomBytes, SealedPeer, SealMachine
from isthmus.live.seal.session import NONCE_START, ReplayWindow, Session
from isthmus.live.seal.wire import HEAD_BYTES, SealError, start


class KeysOfLives(SealMachine):
    """No handshake: what a life sends is sealed under a key made of the cluster's and the number of that life."""

    def __init__(
        self, site: SiteId, names: Mapping[SiteId, str], keys: SealKeys, random: RandomBytes, on_trouble: OnTrouble
    ) -> None:
        super().__init__(site, names, keys, random, on_trouble)
        self.windows: dict[int, ReplayWindow] = {}
        self.count = 0

    def cipher(self, life: int) -> AESGCM:
        return AESGCM(blake2b(life.to_bytes(8, "big"), key=self.keys.cluster[0].secret, digest_size=32).digest())

    def seal(self, target: SiteId, datagram: bytes, now_ns: int) -> bytes:
        self.count += 1
        beginning = start(SEALED, self.site, self.count.to_bytes(8, "big")) + self.life.to_bytes(8, "big")
        return beginning + self.cipher(self.life).encrypt(NONCE_START + beginning[8:16], datagram[24:], beginning)

    def open(self, source: SiteId, datagram: bytes, now_ns: int) -> tuple[bytes, bytes] | None:
        life, counter = int.from_bytes(datagram[16:24], "big"), int.from_bytes(datagram[8:16], "big")
        window = self.windows.setdefault(life, ReplayWindow())
        if not window.is_new(counter):
            return None
        try:
            plain = self.cipher(life).decrypt(NONCE_START + datagram[8:16], datagram[24:], datagram[:24])
        except InvalidTag:
            return None
        window.mark(counter)
        return head(source, life, 0, MESSAGES), plain


class MarkedFirst(Session):
    """The window is marked before the tag is verified."""

    def open(self, datagram: bytes) -> tuple[bytes, bytes]:
        number = int.from_bytes(datagram[8:HEAD_BYTES], "big")
        if not self.window.is_new(number):
            raise SealError("replayed")
        self.window.mark(number)
        try:
            plain = self.opener.decrypt(NONCE_START + datagram[8:16], datagram[16:], datagram[:16])
        except InvalidTag:
            raise SealError("forged") from None
        return self.beginning, plain


class SendsUnconfirmed(SealMachine):
    """The answerer uses a session before anything came by it."""

    def on_greet(self, peer: SealedPeer, site: int, key_id: bytes, datagram: bytes, now_ns: int) -> None:
        super().on_greet(peer, site, key_id, datagram, now_ns)
        self.settle(peer.unconfirmed[-1], now_ns)


class OneTable(SealMachine):
    """Unconfirmed sessions share three places with the confirmed ones."""

    def on_greet(self, peer: SealedPeer, site: int, key_id: bytes, datagram: bytes, now_ns: int) -> None:
        super().on_greet(peer, site, key_id, datagram, now_ns)
        while peer.confirmed and len(peer.confirmed) + len(peer.unconfirmed) + 1 > 3:
            self.end(peer.confirmed.pop(0))


class FirstKeyOnly(SealMachine):
    """Only the first key greets."""

    def greet(self, peer: SealedPeer, now_ns: int) -> None:
        tries, peer.tries = peer.tries, 0
        super().greet(peer, now_ns)
        peer.tries = tries + 1
