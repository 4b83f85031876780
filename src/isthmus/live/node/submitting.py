"""What a program sends, on its way into the stack: in runs that go down as lists."""

from __future__ import annotations

from isthmus.core.errors import LocalError
from isthmus.core.message import Cast, GroupId
from isthmus.protocols.application import Application
from isthmus.protocols.fragments import LARGEST_BYTES

Addressed = dict[int, tuple[GroupId, ...]]  # by number: the groups, ascending, that a message is for


def submit(application: Application, casts: list[Cast], addressed: Addressed) -> None:
    """Submit messages in order: those to all that follow each other as a list, the others singly."""
    if len(casts) > 1 and not any(cast.destinations for cast in casts):
        application.submit_all(casts)
        return
    run: list[Cast] = []
    for cast in casts:
        if not cast.destinations:
            run.append(cast)
            continue
        if run:
            application.submit_all(run)
            run = []
        if cast.number in addressed:
            application.route(cast, addressed[cast.number])
        else:
            application.submit(cast, cast.destinations)
    if len(run) == 1:
        application.submit(run[0])
    elif run:
        application.submit_all(run)


def check_payload(payload: bytes) -> None:
    if not isinstance(payload, bytes):
        raise TypeError(f"a payload is bytes, not {type(payload).__name__}: encode it first")
    if len(payload) > LARGEST_BYTES:
        raise LocalError(f"a payload of {len(payload)} bytes; a message carries at most {LARGEST_BYTES}")
