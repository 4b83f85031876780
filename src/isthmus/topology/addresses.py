"""Addresses of sites as text: `host:port`; the host is a name, an IPv4 address, or an IPv6 address in brackets."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple

from isthmus.core.validation import BadValue, show

FORM = 'an address such as "paris.example.org:7000", "10.0.0.1:7000" or "[2001:db8::1]:7000"'
PORTS = "a port from 1 to 65535"
HOST_MAX = 253  # letters of a name
LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
NUMERIC = re.compile(r"[0-9.]+")


class Endpoint(NamedTuple):
    """A host and a port."""

    host: str  # a name or an address, without brackets
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def is_numeric(self) -> bool:
        """Whether the host is an address already, which needs no resolution."""
        return ":" in self.host or NUMERIC.fullmatch(self.host) is not None

    def is_loopback(self) -> bool:
        return self.host.startswith("127.") or self.host in ("::1", "localhost")


def endpoint(text: str, key: str = "") -> Endpoint:
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        raise BadValue(key, show(text), FORM)
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise BadValue(key, show(text), f"{PORTS} after the last colon")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        address = host.partition("%")[0]  # a link-local one names its interface
        if not is_ipv6(address):
            raise BadValue(key, show(text), "an IPv6 address within the brackets")
    elif ":" in host:
        raise BadValue(key, show(text), f'an IPv6 address in brackets: "[{host}]:{port}"')
    elif NUMERIC.fullmatch(host):
        try:
            IPv4Address(host)
        except AddressValueError:
            raise BadValue(key, show(text), "an IPv4 address of four numbers from 0 to 255") from None
    elif len(host) > HOST_MAX or not all(LABEL.fullmatch(label) for label in host.rstrip(".").split(".")):
        raise BadValue(key, show(text), FORM)
    return Endpoint(host, int(port))


def is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True
