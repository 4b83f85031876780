"""Witness diagrams: order before clock, the same bytes each time, everything inside the picture."""

from __future__ import annotations

import pytest

from isthmus.core.layer import Kind
from isthmus.report.pictures.canvas import save_picture
from isthmus.report.pictures.witness import Event, columns, draw_witness, text_of

SUBMIT, DELIVER = int(Kind.SUBMIT), int(Kind.DELIVER)
CROSSED = [
    Event(1, 0, 90, SUBMIT, (0, 1, 1)),  # its clock is ahead of everyone's
    Event(2, 0, 5, SUBMIT, (0, 2, 1)),
    Event(3, 4, 10, DELIVER, (0, 1, 1)),
    Event(3, 5, 20, DELIVER, (0, 2, 1)),
    Event(4, 2, 12, DELIVER, (0, 2, 1)),
    Event(4, 3, 22, DELIVER, (0, 1, 1)),
]


def picture(tmp_path, name: str, events=CROSSED, **options) -> bytes:
    path = tmp_path / name
    save_picture(draw_witness("total is violated in run 0", "two orders", events, **options), path)
    return path.read_bytes()


@pytest.mark.filterwarnings("error")
def test_a_script_that_the_font_lacks_is_drawn_without_a_warning(tmp_path):
    assert picture(tmp_path, "a.svg", names={1: "\u6771\u4eac"})


def test_columns_follow_what_must_come_first_and_not_the_clock():
    placed = columns(CROSSED)
    assert sorted(placed) == sorted(CROSSED)
    place = {event: column for column, event in enumerate(placed)}
    submit, deliver = CROSSED[0], CROSSED[2]
    assert place[submit] < place[deliver] < place[CROSSED[3]]
    assert place[CROSSED[4]] < place[CROSSED[5]]


def test_columns_of_a_trace_that_contradicts_itself_end():
    events = [
        Event(1, 0, 0, DELIVER, (0, 2, 1)),
        Event(1, 1, 0, SUBMIT, (0, 1, 1)),
        Event(2, 0, 0, DELIVER, (0, 1, 1)),
        Event(2, 1, 0, SUBMIT, (0, 2, 1)),
    ]
    assert sorted(columns(events)) == sorted(events)


def test_the_local_order_is_kept_in_a_trace_that_contradicts_itself():
    early, late = Event(1, 0, 9, DELIVER, (0, 1, 1)), Event(1, 1, 0, SUBMIT, (0, 1, 1))
    assert columns([late, early]) == [early, late]


def test_what_is_missing_stands_ahead_of_what_it_should_precede():
    submit, given = Event(1, 0, 0, SUBMIT, (0, 1, 1)), Event(2, 5, 3, DELIVER, (0, 1, 2))
    gap = Event(2, 5, None, DELIVER, (0, 1, 1), missing=True)
    end = Event(3, None, None, DELIVER, (0, 1, 1), missing=True)
    assert columns([end, given, gap, submit]) == [submit, gap, given, end]
    assert text_of(gap, {1: "amy"}) == "no delivery\namy:1"


def test_the_same_events_give_the_same_bytes(tmp_path):
    for suffix in ("svg", "png"):
        assert picture(tmp_path, f"a.{suffix}") == picture(tmp_path, f"b.{suffix}", CROSSED[::-1])
    assert b"<svg" in picture(tmp_path, "a.svg")
    assert picture(tmp_path, "a.png").startswith(b"\x89PNG")


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_has_a_mark(tmp_path, kind):
    event = Event(1, 0, 0, int(kind), view=3)
    assert text_of(event, {}).startswith(kind.name.lower())
    assert picture(tmp_path, "a.svg", [event], names={1: "a name that is longer than there is room"})


def test_texts_stay_inside_the_picture_and_apart():
    """No label outside the figure, and no two of them upon each other."""
    figure = draw_witness("total is violated in run 0", "process 3 delivered 1:1 before 2:1, " * 9, CROSSED)
    renderer = figure.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in [*figure.texts, *figure.axes[0].texts] if text.get_text()]
    wide, high = figure.canvas.get_width_height()
    for index, box in enumerate(boxes):
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= wide and box.y1 <= high
        assert not any(box.overlaps(other) for other in boxes[index + 1 :])
