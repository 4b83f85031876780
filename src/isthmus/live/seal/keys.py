"""Keys: those of the cluster, in the order in which they are tried, and identities of sites.

A cluster key is 32 bytes that all sites of a network have. Three keyed digests of it are used: the key id, which names
it on the wire; the MAC key of greetings; and the pre-shared key of the handshake. They differ between the modes `key`
and `identity`, so that neither can be talked into the other.

In the mode `identity` each site has an X25519 key of its own, too, and knows the public keys of the others.

    isthmus-key-1 BASE64 COMMENT          of the cluster, the first is the one that greets
    isthmus-site-1 BASE64 SITE            the public key of a site
    isthmus-identity-1 BASE64 SITE        a site's own private key, in a file of its own

Empty lines and lines that begin with # are passed over. Bounds: `KEYS_MAX` cluster keys, `SITES_MAX` sites.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from isthmus.core.errors import InputError

KEY_BYTES = 32
KEY_ID_BYTES = 8
KEYS_MAX = 4  # a rotation needs two
SITES_MAX = 1_000
CLUSTER, SITE, IDENTITY = "isthmus-key-1", "isthmus-site-1", "isthmus-identity-1"


class ClusterKey(msgspec.Struct, frozen=True):
    """One key of a cluster, with what is derived from it for one mode."""

    secret: bytes
    comment: str
    id: bytes  # by which datagrams name it
    mac_key: bytes
    psk: bytes

    def __repr__(self) -> str:
        return f"ClusterKey({self.id.hex()})"  # never the secret: it may end up in a log


class SealKeys(msgspec.Struct, frozen=True):
    """What a site seals with: the keys of its cluster, and in the mode `identity` its own and those of the others."""

    cluster: tuple[ClusterKey, ...]  # the first greets
    identity: bytes = b""  # the private key of this site; empty in the mode `key`
    sites: dict[str, bytes] = {}  # public keys by site

    def __repr__(self) -> str:
        return f"SealKeys({', '.join(key.id.hex() for key in self.cluster)})"

    @property
    def mode(self) -> str:
        return "identity" if self.identity else "key"


def cluster_key(secret: bytes, comment: str = "", mode: str = "key") -> ClusterKey:
    """A cluster key with all that is derived from it."""
    if len(secret) != KEY_BYTES:
        raise ValueError(f"a cluster key of {len(secret)} bytes")

    def derived(purpose: str, size: int) -> bytes:
        return blake2b(f"isthmus 1 {mode} {purpose}".encode(), key=secret, digest_size=size).digest()

    return ClusterKey(secret, comment, derived("id", KEY_ID_BYTES), derived("mac", 32), derived("psk", 32))


class KeyLine(msgspec.Struct, frozen=True):
    """One line of a key file."""

    kind: str
    key: bytes
    text: str  # a comment, or the name of a site

    def __str__(self) -> str:
        return f"{self.kind} {b64encode(self.key).decode()} {self.text}".rstrip()


def read_lines(text: str, source: str) -> list[KeyLine]:
    """The lines of a key file; raises InputError, which never shows a key."""
    found: list[KeyLine] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        kind, _, rest = line.strip().partition(" ")
        where, (encoded, _, said) = f"line {number}", rest.strip().partition(" ")
        if kind not in (CLUSTER, SITE, IDENTITY):
            raise InputError(source, where, "a line of another kind", f"one that begins with {CLUSTER} or {SITE}")
        try:
            key = b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != KEY_BYTES:
            raise InputError(source, where, "a key that is not whole", f"{KEY_BYTES} bytes in base64")
        if kind != CLUSTER and not said.strip():
            raise InputError(source, where, "a key of no site", f"{kind} BASE64 SITE")
        found.append(KeyLine(kind, key, said.strip()))
    return found


def seal_keys(lines: Iterable[KeyLine], source: str, own: KeyLine | None = None, site: str = "") -> SealKeys:
    """The keys of a site, from the lines of the cluster's key file and of the site's identity file, if it has one."""
    lines = list(lines)
    mode = "key" if own is None else "identity"
    cluster = [cluster_key(line.key, line.text, mode) for line in lines if line.kind == CLUSTER]
    sites = {line.text: line.key for line in lines if line.kind == SITE}
    if not 1 <= len(cluster) <= KEYS_MAX:
        raise InputError(source, "", f"{len(cluster)} cluster keys", f"1 to {KEYS_MAX} lines of {CLUSTER}")
    if len({key.id for key in cluster}) < len(cluster):
        raise InputError(source, "", "a cluster key twice", "each key once")
    if any(line.kind == IDENTITY for line in lines):
        raise InputError(source, "", "the private key of a site", "a file of its own for it, which only that site has")
    if len(sites) > SITES_MAX:
        raise InputError(source, "", f"{len(sites)} sites", f"at most {SITES_MAX}")
    if own is None and sites:
        raise InputError(source, "", "public keys of sites", "an identity for this site, too, or no such lines")
    if own is not None:
        if own.text != site:
            raise InputError(source, "identity", f"that of site {own.text}", f"that of {site}")
        if site not in sites:
            raise InputError(source, "", f"no public key of {site}", f"a line {SITE} for each site")
    return SealKeys(tuple(cluster), b"" if own is None else own.key, sites)
