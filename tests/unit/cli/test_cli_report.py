"""`isthmus report` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.unit.report.sample import nine, token_site

from isthmus.cli.main import root
from isthmus.core.errors import InputError


def isthmus(*arguments: str | Path) -> str:
    """What the command prints; an InputError comes out as it is."""
    done = CliRunner().invoke(root, ["report", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_page_and_its_figures_are_written_and_replaced(tmp_path: Path) -> None:
    token_site(tmp_path)
    nine(tmp_path)
    told = isthmus(tmp_path)
    assert told == f"wrote {tmp_path}/report.html: 2 studies, 2 figures, also in {tmp_path}/figures\n"
    files = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert files == ["nine-nine.png", "nine-nine.svg", "token-site-latency.png", "token-site-latency.svg"]
    assert (tmp_path / "figures" / "nine-nine.png").read_bytes().startswith(b"\x89PNG")
    before = (tmp_path / "report.html").read_bytes()
    isthmus(tmp_path)
    assert (tmp_path / "report.html").read_bytes() == before


def test_out_studies_is_where_studies_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="out/studies: found no such folder"):
        isthmus()
    token_site(tmp_path / "out" / "studies")
    assert isthmus("-o", "new/page.html").startswith("wrote new/page.html: 1 study, 1 figure, also in new/figures")


def test_nothing_but_a_report_is_replaced(tmp_path: Path) -> None:
    token_site(tmp_path)
    other = tmp_path / "thesis.html"
    other.write_text("<p>Years of work.")
    with pytest.raises(InputError, match="a file that is not a report"):
        isthmus(tmp_path, "-o", other)
    with pytest.raises(InputError, match="found a folder"):
        isthmus(tmp_path, "-o", tmp_path)
    assert other.read_text() == "<p>Years of work."


def test_open_asks_the_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token_site(tmp_path)
    asked: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: bool(asked.append(address)))
    assert "found no browser" in isthmus(tmp_path, "--open")
    assert asked == [(tmp_path / "report.html").resolve().as_uri()]
