"""Figures: which lines they have, how these look, where names go; and numbers in words."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from tests.unit.report.sample import DELAYS_MS, nine, token_site

from isthmus.report import text as words
from isthmus.report.figures import SOFT, draw_plot, inline_svg, looks_of, name_text, one_line, spread_names
from isthmus.report.lines import Line, Plot, SpreadRow, make_plot, plots_of
from isthmus.report.pictures.distributions import draw_spread_plot
from isthmus.report.results import find_studies
from isthmus.studies.results import FigureSpec


def spec(**changes: str) -> FigureSpec:
    labels = {"xlabel": "x, ms"} | changes
    return FigureSpec(id="f", title="A title", table="t", x="x", y="y", ylabel="y, ms", **labels)  # type: ignore[arg-type]


def test_lines_are_sorted_with_errors_and_the_papers_beside_them(tmp_path: Path) -> None:
    [plot] = plots_of(find_studies([token_site(tmp_path)])[0])
    assert [line.label for line in plot.ours] == ["token-site", "symmetric"]
    assert all(line.xs == list(DELAYS_MS) and all(line.errors) for line in plot.ours)
    assert plot.paper[0] == Line("paper: token-site, 1.97 D", [25, 100, 300, 500], [49, 197, 591, 985], [0.0] * 4)
    looks = looks_of(plot)
    assert [look.color for look in looks[:2]] == [look.color for look in looks[2:]]
    assert looks[0].color != looks[1].color and looks[0].marker != looks[1].marker
    assert [look.paper for look in looks] == [False, False, True, True]


def test_text_on_the_x_axis_keeps_the_tables_order(tmp_path: Path) -> None:
    [plot] = plots_of(find_studies([nine(tmp_path)])[0])
    assert plot.categories[:2] == ["HLLLL", "HHLLL"] and plot.ours[0].xs == list(range(9))
    assert plot.paper[0].xs == [0, 8]


def test_a_papers_line_that_names_none_of_ours_is_grey() -> None:
    ours = [Line("a1", [1], [1], [0]), Line("b1", [1], [1], [0])]
    assert looks_of(Plot(spec(), ours, [Line("other", [1], [1], [0])], []))[2].color == SOFT


def test_a_line_under_another_is_wide_enough_to_be_seen() -> None:
    lines = [Line(name, [1, 2], ys, [0, 0]) for name, ys in (("a1", [1, 9]), ("b1", [5, 5]), ("c1", [1.1, 9.1]))]
    assert [look.wide for look in looks_of(Plot(spec(), lines, [], []))] == [True, False, False]


@pytest.mark.parametrize(
    ("ys", "low"),
    [([545.0, 557.0], 0.0), ([0.0, 0.0], 0.0), ([-3.0, 4.0], None)],
)
def test_axes_start_at_zero_where_nothing_is_below(ys: list[float], low: float | None) -> None:
    [axes] = draw_plot(Plot(spec(), [Line("a", [10.0, 20.0], ys, [0.0, 0.0])], [], [])).axes
    bottom = axes.get_ylim()[0]
    assert bottom == low if low is not None else bottom < min(ys)
    assert axes.get_xlabel() == "x, ms" and axes.get_title(loc="left") == "y, ms"


def test_logarithmic_axes_have_room_for_every_power_of_ten() -> None:
    lines = [Line("a", [1.0, 1e4], [0.5, 2e3], [0.0, 0.0]), Line("b", [1.0, 1e4], [0.51, 1e3], [0.0, 0.0])]
    plot = Plot(msgspec.structs.replace(spec(), log=["x", "y"]), lines, [], [])
    [axes] = draw_plot(plot).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert 0.05 < axes.get_ylim()[0] < 0.5 and 0.1 < axes.get_xlim()[0] < 1.0  # within a power of ten of what is shown
    assert [look.wide for look in looks_of(plot)] == [False, False]  # alike at one end only


def test_what_is_not_above_zero_has_no_place_on_a_logarithmic_axis() -> None:
    shown = msgspec.structs.replace(spec(), log=["y"], series="s")
    table = pa.table({"x": [0.0, 1.0, 2.0], "y": [0.0, 1.0, 10.0], "s": ["a", "a", "a"]})
    assert make_plot(Path("study"), 0, shown, table).ours == [Line("a", [1.0, 2.0], [1.0, 10.0], [0.0, 0.0])]


def test_nothing_to_draw_is_an_empty_figure() -> None:
    assert "<svg" in inline_svg(draw_plot(Plot(spec(), [], [], [])), "p", "empty")


def test_names_are_moved_apart_but_no_further_than_needed() -> None:
    assert spread_names([0.2, 0.8], [0.1, 0.1], 0, 1) == pytest.approx([0.2, 0.8])
    assert spread_names([0.5, 0.5], [0.1, 0.1], 0, 1) == pytest.approx([0.55, 0.45])
    assert spread_names([0.0, 0.01, 1.0], [0.2, 0.2, 0.2], 0.1, 0.9) == pytest.approx([0.2, 0.4, 0.8])
    places = spread_names([0.5] * 6, [0.12] * 6, 0, 1)
    assert min(a - b for a, b in pairwise(places)) >= 0.12 - 1e-9


def test_names_break_between_words_into_lines_alike() -> None:
    assert name_text("token-site") == "token-site"
    assert name_text("paper: symmetric, D + 98 ms") == "paper: symmetric,\nD + 98 ms"
    assert name_text(" \n\x00 ") == "(no name)"
    assert one_line("a rather long scenario name 12", 20, 8) == "a rather lo\N{HORIZONTAL ELLIPSIS} name 12"
    assert name_text("x" * 200).count("\n") <= 2
    for label in ("optimistic-arrival, uncompensated", "an extraordinarily-long-hyphenated-name here"):
        assert name_text(label).replace("\n", " ") == label  # no word is broken


def test_a_stack_has_one_look_and_its_variants_differ() -> None:
    lines = [Line(name, [1, 2], [n, n + 9.0], [0, 0]) for n, name in enumerate(("dyn", "tok", "tok2", "else"))]
    stacks = {"tok": "token-site", "tok2": "token-site", "dyn": "dynamic-hybrid"}
    made = msgspec.structs.replace(spec(), stacks=stacks)
    looks = looks_of(Plot(made, lines, [], []), ["else"])
    alone = looks_of(Plot(made, lines[1:2], [], []))[0]
    assert looks[1].color == looks[2].color == alone.color != looks[0].color
    assert [look.variant for look in looks] == [0, 0, 1, 0] and alone.marker == looks[1].marker


def test_where_no_line_has_two_points_values_stand_side_by_side() -> None:
    plot = Plot(spec(), [Line("a", [5.0], [1.0], [0.0]), Line("b", [5.0], [2.0], [0.5])], [], [])
    [axes] = draw_plot(plot).axes
    assert plot.dots and [text.get_text() for text in axes.get_yticklabels()] == ["a", "b"]
    assert axes.get_xlabel() == "y, ms"


def test_a_distribution_is_drawn_by_rows() -> None:
    rows = tuple(SpreadRow(name, {1: 1.0, 25: 2.0, 50: 3.0, 75: 4.0, 99: 9.0}, 3.5) for name in ("a", "b"))
    plot = Plot(msgspec.structs.replace(spec(), kind="spread"), [], [], ["a", "b"], rows)
    [axes] = draw_spread_plot(plot).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (3, "3"), (1.9812, "1.981"), (8123, "8,123"), (12345.6, "12,346"), (1234.56, "1,234.6"), (-0.5, "\u22120.5"),
        (float("nan"), words.NOTHING), (1e-9, "1e\u221209"), (100.0, "100"), (0.0, "0"), (1e300, "1e+300"),
    ],
)  # fmt: skip
def test_numbers_have_the_digits_a_reader_needs(value: float, said: str) -> None:
    assert words.number(value) == said


def test_values_seeds_and_durations() -> None:
    said = [words.value(given, "ms").replace("\xa0", " ") for given in (None, 2, [1, 2], [1, 2, 3], "about 2")]
    assert said == [words.NOTHING, "2 ms", "1 to 2 ms", "1, 2, 3 ms", "about 2 ms"]
    assert words.measured(151.125, 3.375) == "151.1 ± 3.4" and words.measured(2.0, 0.0) == "2"
    assert words.value(True) == "yes" and words.value(float("nan"), "ms") == words.NOTHING
    assert [words.seeds(given) for given in ([5, 1, 2, 3, 9, 10], [], 4, [7])] == [
        "1 to 3, 5, 9, 10",
        "none",
        "1 to 4",
        "7",
    ]
    assert [words.duration(took_s) for took_s in (1.25, 48.2, 733, 9000)] == ["1.2 s", "48 s", "12 min", "2.5 h"]
