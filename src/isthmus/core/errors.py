"""Errors by their cause: bad user input, misuse by a caller, or a peer that breaks the protocol.

`InputError` is one readable sentence: the place, the value found and the values expected. `LocalError` means that a
caller misused an interface; the caller may catch it. `RemoteError` means that a peer broke the protocol: its packet is
counted and dropped, and nothing else changes.
"""


class IsthmusError(Exception):
    """Base of every error that Isthmus raises on purpose."""


class InputError(IsthmusError):
    """A file or an option with an invalid value."""

    def __init__(self, source: str, key: str, found: str, expected: str) -> None:
        super().__init__(source, key, found, expected)
        self.source = source  # the file or the option, "" until known
        self.key = key  # a path such as links[2].delay, "" for the whole file
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.source, self.key) if part)
        return f"{place}: found {self.found}; expected {self.expected}"


class LocalError(IsthmusError):
    """Misuse of an interface: a submit before the first view, two owners of one wire type."""


class RunError(LocalError):
    """A run ended abnormally, for instance because a process was killed."""


class Busy(LocalError):
    """A bounded buffer is full: nothing was accepted; retry after `resume`."""


class RemoteError(IsthmusError):
    """A peer's packet breaks the protocol; it is dropped and changes nothing."""
