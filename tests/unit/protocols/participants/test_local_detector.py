"""The participants' failure detector: what is certain is told once, silence is a decision."""

from __future__ import annotations

import pytest

from isthmus.core.validation import BadValue
from isthmus.protocols.participants.detector import DetectorOptions, LocalDetector, Removal

MS = 1_000_000


def detector() -> LocalDetector[str]:
    return LocalDetector(DetectorOptions(probe_ms=100, silence_ms=300))


def test_a_closed_channel_and_a_dead_process_are_told_once() -> None:
    made = detector()
    made.watch("ann", probed=True)
    made.watch("bob", probed=False)
    assert made.closed("ann") == Removal("ann", "its channel was closed", False)
    assert made.died("ann") is None and made.closed("ann") is None
    assert made.died("bob", "killed") == Removal("bob", "its process ended: killed", False)
    assert made.tick(10_000 * MS) == ([], [])


def test_silence_is_decided_after_the_configured_time() -> None:
    made = detector()
    made.watch("ann", probed=True)
    made.watch("bob", probed=True)
    made.watch("eve", probed=False)
    assert made.tick(0) == (["ann", "bob"], [])
    for now in (100, 200):
        made.answered("bob")
        assert made.tick(now * MS) == (["ann", "bob"], [])
    made.answered("bob")
    probed, removals = made.tick(300 * MS)
    assert probed == ["bob"]
    assert removals == [Removal("ann", "it has not answered for 0.3 s: removed by decision", True)]
    made.answered("ann")  # too late: it was told
    assert made.closed("ann") is None


def test_a_pause_of_the_site_itself_is_not_the_silence_of_others() -> None:
    made = detector()
    made.watch("ann", probed=True)
    made.tick(0)
    assert made.tick(60_000 * MS) == (["ann"], []), "one probe period counts, not a minute"
    made.answered("ann")
    assert made.tick(60_100 * MS) == (["ann"], [])


def test_silence_shorter_than_two_probes_is_refused() -> None:
    with pytest.raises(BadValue, match="silence_ms: found 150; expected two probe periods or more, 200"):
        DetectorOptions(probe_ms=100, silence_ms=150)
