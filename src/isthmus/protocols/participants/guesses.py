"""The guesses of an optimistic order, as participants are told of them.

Invariants: a guess that was passed on is forgotten when its message is delivered, or passed on once more as revoked.
Bound: as many as the order below has messages that are tentative.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from isthmus.core.layer import Finality
from isthmus.core.message import Cast, SiteId
from isthmus.protocols.participants.wire import Speech


class ParticipantGuesses:
    """What is tentative at a site, for the participants there."""

    __slots__ = ("on_guess", "told")

    def __init__(self) -> None:
        self.on_guess: Callable[[Speech], None] | None = None  # None: nobody asks for guesses
        self.told: dict[tuple[SiteId, int], Speech] = {}  # neither delivered nor revoked, by sender and number

    def pass_on(self, cast: Cast, guess: Speech) -> None:
        if self.on_guess is not None:
            self.told[cast.sender, cast.number] = guess
            self.on_guess(guess)

    def settle(self, cast: Cast) -> None:
        """Forget a guess whose message is delivered."""
        self.told.pop((cast.sender, cast.number), None)

    def revoke(self, group: str, cast: Cast | None = None) -> None:
        """Take back the guess of a message, or all guesses of a group."""
        for key, guess in list(self.told.items()):
            if guess.group == group and (cast is None or key == (cast.sender, cast.number)) and self.on_guess:
                del self.told[key]
                self.on_guess(msgspec.structs.replace(guess, finality=Finality.REVOKED))
