"""The report in a real browser, on a phone and on a wide screen: nothing overflows, nothing is clipped.

The page itself has no script. Here it is put into a frame as wide as the screen in question, inside a page whose
script opens all that is folded and writes down whatever sticks out.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path

import pytest
from tests.unit.report.sample import nine, token_site, write_json

from isthmus.report.page import page, sections
from isthmus.report.results import find_studies
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.topology.written import topology_to_toml

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
needs_browser = pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium")
PHONE, DESKTOP = 390, 1920
WIDTHS = (320, PHONE, 600, 820, 1280, DESKTOP)
FRAME = """<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe id="frame" style="border:0;width:{width}px;height:900px" srcdoc="{page}"></iframe><pre id="found"></pre>
<script>
const frame = document.getElementById("frame");
frame.onload = () => {{
  const inner = frame.contentDocument, wide = frame.contentWindow.innerWidth, found = [];
  inner.querySelectorAll("details").forEach(details => details.open = true);
  const whole = inner.documentElement.scrollWidth;
  if (whole > wide) found.push("the page is " + whole + " wide");
  const told = node => node.tagName + " " + (node.textContent || "").trim().slice(0, 60);
  for (const node of inner.querySelectorAll("main *:not(svg *), footer *")) {{
    const box = node.getBoundingClientRect();
    if (!box.width || !box.height || node.closest("thead") && wide <= 800) continue;
    if (box.right > wide + 1 || box.left < -1) found.push("sticks out: " + told(node));
    const style = frame.contentWindow.getComputedStyle(node);
    const block = style.display !== "inline" && node.tagName !== "svg" && node.clientWidth;
    if (block && node.scrollWidth > node.clientWidth + 1)
      found.push("overflows: " + told(node));
  }}
  for (const svg of inner.querySelectorAll("svg")) {{
    const around = svg.getBoundingClientRect();
    for (const text of svg.querySelectorAll("text")) {{
      const box = text.getBoundingClientRect();
      if (box.left < around.left - 2 || box.right > around.right + 2 || box.top < around.top - 2 ||
          box.bottom > around.bottom + 2) found.push("clipped in a figure: " + told(text));
    }}
  }}
  const tables = inner.querySelectorAll("table").length;
  document.getElementById("found").textContent = JSON.stringify({{wide, found, tables}});
}};
</script>"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page with everything that a page can have."""
    folder = tmp_path_factory.mktemp("studies")
    token_site(folder)
    study = nine(folder)
    advice = {
        "situation": "Clusters far apart, with a load that moves",
        "stack": "dynamic-hybrid",
        "because": "x " * 60,
    }
    write_json(study / "advice.json", [advice] * 3)
    (study / "networks").mkdir()
    network = mesh(3, 2, Channel(Constant(1.0)), Channel(Constant(50.0)))
    (study / "networks" / "0.toml").write_text(topology_to_toml(network))
    claims = json.loads((study / "claims.json").read_text())
    write_json(
        study / "claims.json", [claim | {"kind": kind} for kind in ("paper", "promise", "sanity") for claim in claims]
    )
    return page(sections(find_studies([folder])))


def sticking_out(html: str, width: int, folder: Path) -> list[str]:
    """What overflows or is clipped where the page is shown at a width."""
    path = folder / "frame.html"
    path.write_text(FRAME.format(width=width, page=escape(html, quote=True)), encoding="utf-8")
    words = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    words += [f"--window-size={max(width, 800)},1000", "--virtual-time-budget=10000", "--dump-dom", path.as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=180, check=False)
    match = re.search(r'<pre id="found">(.+?)</pre>', done.stdout, re.DOTALL)
    assert match, done.stderr[-2000:]
    found = json.loads(unescape(match[1]))
    assert found["wide"] == width and found["tables"] > 5
    return list(found["found"])


@needs_browser
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_nothing_sticks_out_on_a_phone_and_on_a_wide_screen(report: str, width: int, tmp_path: Path) -> None:
    assert sticking_out(report, width, tmp_path) == []


@needs_browser
def test_the_browser_test_sees_what_sticks_out(report: str, tmp_path: Path) -> None:
    planted = report.replace("<main>", '<main><p style="white-space:nowrap">' + "far too long " * 80 + "</p>")
    assert any("far too long" in line for line in sticking_out(planted, PHONE, tmp_path))


@pytest.mark.full
@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out_at_any_width(report: str, width: int, tmp_path: Path) -> None:
    assert sticking_out(report, width, tmp_path) == []


@pytest.mark.full
@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out_of_the_demos_report(width: int, tmp_path: Path) -> None:
    studies = Path(__file__).parents[3] / "out" / "studies"
    if not studies.is_dir():
        pytest.skip("make demo has not been run")
    assert sticking_out(page(sections(find_studies([studies]))), width, tmp_path) == []
