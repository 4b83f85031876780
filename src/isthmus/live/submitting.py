"""What a program sends, on its way into the stack: in runs that go down as lists, within the bounds of a datagram."""

from __future__ import annotations

from isthmus.core.errors import LocalError
from isthmus.core.message import Cast
from isthmus.live.framing import PAYLOAD_MAX
from isthmus.protocols.application import Application


def submit(application: Application, casts: list[Cast]) -> None:
    """Submit messages in order: those to all that follow each other as a list, the others singly."""
    below = application.below
    if len(casts) > 1 and not any(cast.destinations for cast in casts):
        below.submit_all(casts)
        return
    run: list[Cast] = []
    for cast in casts:
        if not cast.destinations:
            run.append(cast)
            continue
        if run:
            below.submit_all(run)
            run = []
        below.submit(cast, cast.destinations)
    if len(run) == 1:
        below.submit(run[0])
    elif run:
        below.submit_all(run)


def check_payload(payload: bytes) -> None:
    if not isinstance(payload, bytes):
        raise TypeError(f"a payload is bytes, not {type(payload).__name__}: encode it first")
    if len(payload) > PAYLOAD_MAX:
        raise LocalError(f"a payload of {len(payload)} bytes; a message carries at most {PAYLOAD_MAX}")
