"""What a site has with the others, for people."""

from __future__ import annotations

import msgspec


class SessionStatus(msgspec.Struct, frozen=True):
    """The session of a site with another one.

    Args:
        site: the name of the other site.
        phase: closed, greeting, open or renewing.
        life: of the other site, as the time in ns at which it began; 0: no session.
        key: the id of the cluster key that the session rests on, in hexadecimal.
        age_s: since the session was made.
        held: datagrams that wait for a session.
    """

    site: str
    phase: str
    life: int
    key: str
    age_s: float
    held: int
