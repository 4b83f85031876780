"""Views that the lives of a group found by their files, after all lives before have ended."""

from __future__ import annotations

import pytest
from tests.unit.judge.stories import Story

FIVE = (1, 2, 3, 4, 5)


def restarted(number: int, *members: int, between: tuple[int, ...] = ()) -> Story:
    """View 1 of five, perhaps view 2 of some; then all crash, and new lives of some members install a view."""
    story = Story().view(1, *FIVE)
    if between:
        story.view(2, *between)
    for process in FIVE:
        story.crash(process).recover(process, 1)
    return story.view(number, *members)


@pytest.mark.parametrize(
    ("story", "status"),
    [
        (restarted(2, 1, 2, 3), "valid"),
        (restarted(2, 1, 2), "violated"),
        (restarted(3, 1, 2, between=(1, 2, 3)), "valid"),
        (restarted(3, 1, 4, 5, between=(1, 2, 3)), "violated"),
        (restarted(3, 1, 2), "unknown"),  # by the votes of a quorum of view 2, perhaps, which nobody installed
    ],
    ids=["a quorum", "too few", "a quorum of the last", "a quorum of an earlier one", "after a view that is not there"],
)
def test_a_view_by_files_follows_a_view_of_which_it_has_a_quorum(story: Story, status: str) -> None:
    """It was called a rival of all views before, as no life leads from one to the other."""
    assert story.verdict("primary").status == status


def test_two_views_by_files_of_which_both_have_a_quorum_are_rivals() -> None:
    story = restarted(2, 1, 2, 3).view(2, 3, 4, 5)
    assert story.verdict("primary").status == "violated"
