"""The snapshot of a state, as its giver keeps it."""

from __future__ import annotations

from hashlib import sha256

import pytest

from isthmus.protocols.membership import transfer
from isthmus.protocols.membership.transfer import APPLICATION, LAYERS, Snapshot


def test_the_digest_of_a_state_is_calculated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in each piece: calculated anew for each, a state of 2 MB kept its giver busy until it was suspected."""
    data: list[bytes] = []
    monkeypatch.setattr(transfer, "sha256", lambda given: data.append(given) or sha256(given))
    snapshot = Snapshot(b"layers", b"application", 0)
    for _ in range(3):
        assert snapshot.digest(APPLICATION) == sha256(b"application").digest()
        assert snapshot.digest(LAYERS) == sha256(b"layers").digest()
    assert data == [b"application", b"layers"]
