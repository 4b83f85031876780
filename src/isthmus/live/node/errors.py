"""What a program that is in a group must be ready to catch."""

from __future__ import annotations

from isthmus.core.errors import LocalError


class Refused(LocalError):
    """The other sites refuse this one: it was started again, and they know its earlier life (static membership)."""


class Blocked(LocalError):
    """Nothing can be sent now: this site is in no view, or in one that changes or lacks a majority."""


class SendTimeout(LocalError, TimeoutError):
    """A message was not taken in time; the text names the sites that are waited for."""


class NotJoined(LocalError):
    """No view has admitted this site in time, and a site that answered runs something else; the text says what."""


class SiteFailed(LocalError):
    """This site has left, as it could not go on: its file cannot be written, or a call-back of the program raised."""
