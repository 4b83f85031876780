"""Who broke which rule: the user's input, our own code's misuse, or a peer.

`InputError` is for people: one sentence that says where, what was found and what would be right. `LocalError` is a
caller that misused an interface and may catch it. `RemoteError` is a peer that broke the protocol: its packet is
counted and dropped, and nothing else changes.
"""


class IsthmusError(Exception):
    """Base of every error that Isthmus raises on purpose."""


class InputError(IsthmusError):
    """A file or an option that cannot be used as it is."""

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
    """We were misused: a submit before the first view, two owners of one wire type."""


class RunError(LocalError):
    """A run came to an end that it should not have had, as by a process that was killed."""


class Busy(LocalError):
    """A bounded buffer is full: nothing was taken, try again after `resume`."""


class RemoteError(IsthmusError):
    """A peer's packet breaks the protocol; it is dropped and changes nothing."""
