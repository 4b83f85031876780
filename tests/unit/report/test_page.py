"""The page: alone, the same each time, complete, and deaf to markup in what it shows."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from tests.unit.report.sample import about, nine, token_site, verdict, write_study

from isthmus.report.figures import render
from isthmus.report.page import CLAIM_LOOKS, claim_look, mood, page, sections, unique
from isthmus.report.results import find_studies
from isthmus.report.text import OUTCOMES, runs_sentence
from isthmus.studies.results import ClaimResult
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.topology.written import topology_to_toml

EVIL = "</title></style><script>alert('x')</script><img src=x onerror=\"y\"> & $\\alpha{$ \u4e2d\x07"
VOID = {"meta", "img", "br", "hr", "link", "input"}


class Reader(HTMLParser):
    """Elements, text and whether every element is closed where it should be."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data.replace("\xa0", " ")

    def ids(self) -> list[str]:
        return [value for _, attributes in self.elements if (value := attributes.get("id"))]


def make(*folders: Path) -> str:
    return page(sections(find_studies(list(folders))))


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studies")
    token_site(folder)
    nine(folder)
    return folder


@pytest.fixture(scope="module")
def html(out: Path) -> str:
    return make(out)


def test_the_page_loads_nothing(html: str) -> None:
    assert not re.search(r"https?://|//cdn|@import|url\((?!#)", html)
    reader = Reader(html)
    assert not {tag for tag, _ in reader.elements} & {"script", "link", "img", "iframe", "object", "embed", "base"}
    links = [a.get("href") or a.get("xlink:href") or a.get("src") for _, a in reader.elements]
    assert all(link.startswith("#") for link in links if link)


def test_ids_are_unique_and_links_lead_to_them(html: str) -> None:
    reader = Reader(html)
    ids = reader.ids()
    assert len(ids) == len(set(ids))
    used = re.findall(r'href="#([^"]+)"', html) + re.findall(r"url\(#([^)]+)\)", html)
    assert used and set(used) <= set(ids)


def test_the_same_studies_give_the_same_bytes(out: Path, html: str) -> None:
    assert make(out) == html
    parts = [sections(find_studies([out])) for _ in range(2)]
    for kind in ("svg", "png"):
        first, second = ([render(drawn.figure, kind) for part in each for drawn in part.drawn] for each in parts)
        assert first == second


def test_every_claim_and_verdict_is_there(out: Path, html: str) -> None:
    text = Reader(html).text
    for folder in (out / "token-site", out / "nine"):
        said = json.loads((folder / "study.json").read_text())
        assert all(said[key] in text for key in ("title", "question", "source", "command", "scale", "spark_master"))
        for claim in json.loads((folder / "claims.json").read_text()):
            assert all(claim[key] in text for key in ("statement", "source", "detail"))
            assert OUTCOMES.get(("paper", claim["verdict"]), "unknown") in text
        for row in pq.read_table(folder / "verdicts.parquet").to_pylist():
            assert all(row[key] in text for key in ("property", "status", "witness", "replay"))
        for figure in json.loads((folder / "figures.json").read_text()):
            assert all(figure[key] in text for key in ("title", "caption", "xlabel", "ylabel"))
    assert (
        "1.981 D" in text
        and "545 to 557 ms" in text
        and "2 of 9" in text
        and "within 3 %" in text
        and "at most 2 s" in text
    )
    assert "isthmus 0.1.0, python 3.11.7, pyspark 4.1.1, java 21.0.4" in text and "1 to 5" in text


def test_the_answer_is_one_sentence_a_study(html: str) -> None:
    text = Reader(html).text
    said = "Both claims of papers are confirmed; all 6 checks are valid in every run."
    assert text.count(said) == 2  # in the index, and in place
    assert (
        "Of 3 claims of papers, 1 confirmed, 1 not confirmed and 1 unknown; of 6 checks, “total” was violated" in text
    )
    assert "1 of 46 runs failed." in text
    assert "Of 5 claims of papers, 3 confirmed, 1 not confirmed and 1 unknown; 136 runs, 1 of them failed." in text


def claimed(kind: str, verdict: str) -> ClaimResult:
    return ClaimResult(statement="s", source="x", verdict=verdict, kind=kind)  # type: ignore[arg-type]


def test_a_papers_claim_that_fails_is_a_finding_and_a_promise_that_fails_is_a_defect(out: Path) -> None:
    [study] = find_studies([out / "token-site"])
    for claims, expected in (
        ([claimed("paper", "does not hold"), claimed("promise", "holds")], ""),
        ([claimed("promise", "does not hold")], " bad"),
        ([claimed("sanity", "does not hold")], " bad"),
        ([claimed("paper", "unknown")], " open"),
    ):
        assert mood(msgspec.structs.replace(study, claims=claims)) == expected
    looks = [claim_look(claimed(kind, verdict))[0] for kind, verdict in CLAIM_LOOKS]
    assert looks == ["found", "differs", "good", "bad", "quiet", "bad"]


def test_advice_and_the_headline_come_first_and_papers_in_the_order_of_the_story(tmp_path: Path) -> None:
    for place, (make_one, paper) in enumerate(((nine, "A paper"), (token_site, ""))):
        folder = make_one(tmp_path)
        about = json.loads((folder / "study.json").read_text())
        (folder / "study.json").write_text(json.dumps(about | {"paper": paper, "place": place}))
    advice = [{"situation": "sites far apart", "stack": "hybrid", "because": "557 ms"}]
    (tmp_path / "nine" / "advice.json").write_text(json.dumps(advice))
    figures = json.loads((tmp_path / "nine" / "figures.json").read_text())
    (tmp_path / "nine" / "figures.json").write_text(json.dumps([figures[0] | {"headline": True}]))
    (tmp_path / "nine" / "networks").mkdir()
    network = mesh(2, 3, Channel(Constant(1.0)), Channel(Constant(50.0)))
    (tmp_path / "nine" / "networks" / "0.toml").write_text(topology_to_toml(network))
    html = make(tmp_path)
    reader = Reader(html)
    order = ["What to use", "sites far apart", "Stacks", "Findings", "A paper", "Beyond the papers"]
    places = [reader.text.index(words) for words in order]
    assert places == sorted(places)
    assert html.index('id="chapter-a-paper"') < html.index('id="chapter-beyond-the-papers"')
    assert len(reader.ids()) == len(set(reader.ids())) and "2 clusters, 6 sites" in reader.text


def test_intervals_and_single_runs_are_said() -> None:
    assert runs_sentence((1, 1), False) == "Single runs: no intervals."
    assert runs_sentence((2, 2), False) == "Means of 2 runs: too few for intervals."
    assert "over 5 runs." in runs_sentence((5, 5), True)
    assert "fewer" in runs_sentence((1, 8), True) and runs_sentence(None, True) == ""


def test_headings_go_down_step_by_step_and_figures_are_named(out: Path, html: str) -> None:
    for each in (html, make(out / "token-site")):
        reader = Reader(each)
        levels = [int(tag[1]) for tag, _ in reader.elements if re.fullmatch(r"h[1-6]", tag)]
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))
        pictures = [attributes for tag, attributes in reader.elements if tag == "svg"]
        assert pictures and all(a["role"] == "img" and a["aria-label"] for a in pictures)
        assert ("html", {"lang": "en"}) in reader.elements
        assert any(a.get("name") == "viewport" for tag, a in reader.elements if tag == "meta")


def test_an_index_only_where_there_are_several(out: Path, html: str) -> None:
    assert 'class="index"' in html and 'href="#nine"' in html
    alone = make(out / "token-site")
    assert 'class="index"' not in alone and "<h1>Token-site against the delay of the network</h1>" in alone


def hostile(folder: Path) -> Path:
    claim: dict[str, Any] = dict.fromkeys(("statement", "source", "expected", "unit", "detail"), EVIL)
    found = verdict(EVIL, "violated", 1, witness=EVIL, replay=EVIL)
    figure = dict.fromkeys(("id", "title", "caption", "x", "y", "series", "xlabel", "ylabel"), EVIL)
    figure |= {"kind": "lines", "table": "t", "x": "x", "y": "y", "paper": [{"label": EVIL, "x": ["b"], "y": [1]}]}
    words = dict.fromkeys(("title", "question", "source", "scale", "command", "spark_master"), EVIL)
    said = about(EVIL, **words, versions={EVIL: EVIL})
    table = {"x": ["b", EVIL], "y": [1.0, 2.0], EVIL: [EVIL, EVIL]}
    return write_study(folder / "evil", said, [claim | {"verdict": "holds"}], [found], [figure], {"t": table})


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    hostile(tmp_path)
    reader = Reader(make(tmp_path))
    assert not {tag for tag, _ in reader.elements} & {"script", "img"}
    assert not [key for _, attributes in reader.elements for key in attributes if key.startswith("on")]
    assert "<script>alert('x')</script>" in reader.text
    [part] = sections(find_studies([tmp_path]))
    [drawn] = part.drawn
    assert re.fullmatch(r"[a-z0-9-]+", drawn.name)
    ElementTree.fromstring(render(drawn.figure, "svg"))


def test_names_become_ids_that_differ() -> None:
    assert unique(["A b", "a-b", "a b", "../..", "\u4e2d"]) == ["a-b", "a-b-2", "a-b-3", "unnamed", "unnamed-2"]


def test_a_study_without_figures_claims_or_checks_still_renders(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "bare", about("bare", seeds=5, failed_runs=0), [], [verdict("fifo", "valid", 3)])
    text = Reader(make(folder)).text
    assert "The study makes no claims; the check is valid in every run." in text
    assert "The study makes no claims." in text and "1 to 5" in text


def test_what_is_the_same_of_several_checks_is_said_once(tmp_path: Path) -> None:
    rows = [verdict(name, "unknown", 3, witness="the checks were not run") for name in ("fifo", "total", "views")]
    text = Reader(make(write_study(tmp_path / "none", about("none"), [], rows))).text
    assert "the study makes no claims; all 3 checks are unknown." in text.lower()
    assert text.count("the checks were not run") == 1 and "fifo, total and views in 3 runs" in text


def test_a_check_without_evidence_in_some_runs_is_valid_in_part(tmp_path: Path) -> None:
    rows = [verdict("views", "valid", 3), verdict("views", "unknown", 2)]
    text = Reader(make(write_study(tmp_path / "part", about("part"), [], rows))).text
    assert "partly valid" in text and "of 1 check, “views” is unknown in some runs." in text
