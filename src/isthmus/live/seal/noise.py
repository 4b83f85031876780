"""The handshake: Noise with the patterns NNpsk0 and IXpsk0, X25519, AES-256-GCM and SHA-256.

    NNpsk0    -> psk, e            <- e, ee
    IXpsk0    -> psk, e, s         <- e, ee, se, s, es

The greeter writes the first message and the answerer the second; then both have a key for each direction. A first
message can be replayed, as nothing in it is of the answerer: its sender is known only once something came by the
session. Reading a message changes nothing where it fails, so a forged answer does not end a handshake.
"""

from __future__ import annotations

from hashlib import sha256
from hmac import digest as hmac

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from isthmus.live.seal.wire import SealError

KEY_BYTES = 32
TAG_BYTES = 16
NAMES = {False: b"Noise_NNpsk0_25519_AESGCM_SHA256", True: b"Noise_IXpsk0_25519_AESGCM_SHA256"}  # by: with identities


def expand(key: bytes, material: bytes, count: int) -> list[bytes]:
    """Keys from a chaining key and new material (HKDF as Noise has it)."""
    secret, found, last = hmac(key, material, "sha256"), [], b""
    for number in range(1, count + 1):
        last = hmac(secret, last + bytes([number]), "sha256")
        found.append(last)
    return found


class SymmetricState:
    """The chaining key, the transcript's hash and the present key of a handshake."""

    __slots__ = ("chain", "count", "hash", "key")

    def __init__(self, name: bytes, prologue: bytes, psk: bytes) -> None:
        self.chain = self.hash = name  # it is as long as a hash
        self.key, self.count = b"", 0
        self.mix_hash(prologue)
        self.chain, mixed, self.key = expand(self.chain, psk, 3)
        self.mix_hash(mixed)

    def copy(self) -> SymmetricState:
        made = SymmetricState.__new__(SymmetricState)
        made.chain, made.hash, made.key, made.count = self.chain, self.hash, self.key, self.count
        return made

    def mix_hash(self, data: bytes) -> None:
        self.hash = sha256(self.hash + data).digest()

    def mix_key(self, material: bytes) -> None:
        self.chain, self.key = expand(self.chain, material, 2)
        self.count = 0

    def mix_public(self, public: bytes) -> None:
        """Take an ephemeral public key: with a pre-shared key it goes into the chaining key, too."""
        self.mix_hash(public)
        self.mix_key(public)

    def nonce(self) -> bytes:
        self.count += 1
        return (self.count - 1).to_bytes(12, "big")

    def encrypt(self, plain: bytes) -> bytes:
        sealed = AESGCM(self.key).encrypt(self.nonce(), plain, self.hash)
        self.mix_hash(sealed)
        return sealed

    def decrypt(self, sealed: bytes) -> bytes:
        try:
            plain = AESGCM(self.key).decrypt(self.nonce(), sealed, self.hash)
        except (InvalidTag, ValueError):
            raise SealError("forged") from None
        self.mix_hash(sealed)
        return plain

    def split(self) -> tuple[bytes, bytes]:
        """The keys of the session: from the greeter to the answerer, and back."""
        there, back = expand(self.chain, b"", 2)
        return there, back


def agree(private: bytes, public: bytes) -> bytes:
    """The secret that two keys share."""
    try:
        return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:  # a public key of low order
        raise SealError("forged") from None


def public_of(private: bytes) -> bytes:
    """The public key of a private one."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


class Greeter:
    """The end of a handshake that begins it."""

    __slots__ = ("ephemeral", "identity", "state")

    def __init__(self, psk: bytes, prologue: bytes, ephemeral: bytes, identity: bytes = b"") -> None:
        self.ephemeral = ephemeral  # private, of this handshake alone
        self.identity = identity  # private; empty: without identities
        self.state = SymmetricState(NAMES[bool(identity)], prologue, psk)

    def write(self, payload: bytes) -> bytes:
        """The first message."""
        public = public_of(self.ephemeral)
        self.state.mix_public(public)
        static = self.state.encrypt(public_of(self.identity)) if self.identity else b""
        return public + static + self.state.encrypt(payload)

    def read(self, message: bytes) -> tuple[bytes, bytes, SymmetricState]:
        """The payload of the second message, the answerer's identity, and the state at the end."""
        state, public = self.state.copy(), message[:KEY_BYTES]
        if len(message) < KEY_BYTES + TAG_BYTES:
            raise SealError("forged")
        state.mix_public(public)
        state.mix_key(agree(self.ephemeral, public))
        static, rest = b"", message[KEY_BYTES:]
        if self.identity:
            state.mix_key(agree(self.identity, public))
            static = state.decrypt(rest[: KEY_BYTES + TAG_BYTES])
            state.mix_key(agree(self.ephemeral, static))
            rest = rest[KEY_BYTES + TAG_BYTES :]
        return state.decrypt(rest), static, state


class Answerer:
    """The end of a handshake that answers."""

    __slots__ = ("greeter", "greeter_identity", "identity", "state")

    def __init__(self, psk: bytes, prologue: bytes, identity: bytes = b"") -> None:
        self.identity = identity
        self.state = SymmetricState(NAMES[bool(identity)], prologue, psk)
        self.greeter = self.greeter_identity = b""

    def read(self, message: bytes) -> bytes:
        """The payload of the first message; then the public keys of the greeter are known, though not yet proved."""
        if len(message) < KEY_BYTES + TAG_BYTES:
            raise SealError("forged")
        self.greeter, rest = message[:KEY_BYTES], message[KEY_BYTES:]
        self.state.mix_public(self.greeter)
        if self.identity:
            self.greeter_identity = self.state.decrypt(rest[: KEY_BYTES + TAG_BYTES])
            rest = rest[KEY_BYTES + TAG_BYTES :]
        return self.state.decrypt(rest)

    def write(self, payload: bytes, ephemeral: bytes) -> bytes:
        """The second message."""
        state, public = self.state, public_of(ephemeral)
        state.mix_public(public)
        state.mix_key(agree(ephemeral, self.greeter))
        static = b""
        if self.identity:
            state.mix_key(agree(ephemeral, self.greeter_identity))
            static = state.encrypt(public_of(self.identity))
            state.mix_key(agree(self.identity, self.greeter))
        return public + static + state.encrypt(payload)
