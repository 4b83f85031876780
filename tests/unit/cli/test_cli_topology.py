"""`isthmus topology` as a user meets it."""

import subprocess
import sys
from pathlib import Path

import pytest

from isthmus.topology.load import load_topology


def isthmus(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    code = "from isthmus.cli.main import main; main()"
    command = [sys.executable, "-c", code, "topology", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


def test_a_shape_goes_to_standard_output_or_to_a_file_once(tmp_path: Path) -> None:
    shown = isthmus("shape", "star", "--clusters", "3", cwd=tmp_path)
    assert shown.returncode == 0 and shown.stdout.startswith('name = "star-3"')
    assert isthmus("shape", "ring", "-o", "net.toml", cwd=tmp_path).returncode == 0
    before = (tmp_path / "net.toml").read_text()
    again = isthmus("shape", "star", "-o", "net.toml", cwd=tmp_path)
    assert again.returncode == 2
    assert (
        again.stderr == "isthmus: -o: net.toml: found an existing file; expected a new file, or --force to replace it\n"
    )
    assert (tmp_path / "net.toml").read_text() == before
    assert isthmus("shape", "star", "-o", "net.toml", "--force", cwd=tmp_path).returncode == 0
    assert load_topology(tmp_path / "net.toml").name == "star-4"


def test_an_import_says_what_it_inferred_and_never_replaces_its_input(tmp_path: Path) -> None:
    (tmp_path / "rtt.csv").write_text("a,b,rtt_ms\np,q,0.5\np,r,80\nq,r,82\n")
    done = isthmus("import", "rtt.csv", "-o", "net.toml", cwd=tmp_path)
    assert done.returncode == 0 and "3 hosts in 2 clusters" in done.stderr
    assert len(load_topology(tmp_path / "net.toml").clusters) == 2
    refused = isthmus("import", "rtt.csv", "-o", "rtt.csv", "--force", cwd=tmp_path)
    assert refused.returncode == 2 and "the input itself" in refused.stderr
    (tmp_path / "near.csv").write_text("a,b,rtt_ms\np,q,0.5\n")
    near = isthmus("import", "near.csv", "-o", "near.toml", cwd=tmp_path)
    assert "2 hosts in 1 cluster with" in near.stderr and "1 cluster, 2 sites" in near.stderr
    strange = isthmus("import", "rtt.json", cwd=tmp_path)
    assert strange.returncode == 2 and "one that ends in .csv, .tsv or .graphml" in strange.stderr


def test_show_prints_tables_and_draws_only_when_asked(tmp_path: Path) -> None:
    isthmus("shape", "ring", "-o", "net.toml", cwd=tmp_path)
    shown = isthmus("show", "net.toml", cwd=tmp_path)
    assert shown.returncode == 0 and "c3-0" in shown.stdout and "100" in shown.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["net.toml"]
    drawn = isthmus("show", "net.toml", "-o", "pictures", "--svg", "extra.svg", cwd=tmp_path)
    assert drawn.returncode == 0 and "wrote pictures/ring-4.svg" in drawn.stdout
    assert (tmp_path / "pictures/ring-4.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "pictures/ring-4.svg").read_bytes() == (tmp_path / "extra.svg").read_bytes()
    refused = isthmus("show", "net.toml", "--png", "net.toml", "--force", cwd=tmp_path)
    assert refused.returncode == 2 and "the input itself" in refused.stderr


def test_many_clusters_are_listed_by_their_links(tmp_path: Path) -> None:
    isthmus("shape", "star", "--clusters", "14", "-o", "net.toml", cwd=tmp_path)
    assert "WAN links" in isthmus("show", "net.toml", cwd=tmp_path).stdout


@pytest.mark.parametrize("name", ["", "import", "shape", "show"])
def test_help_has_examples(name: str, tmp_path: Path) -> None:
    shown = isthmus(*([name] if name else []), "--help", cwd=tmp_path)
    assert shown.returncode == 0 and "Examples:" in shown.stdout


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text("[[clusters]]\nname = 'a'\nsitess = 2\n")
    failed = isthmus("show", "net.toml", cwd=tmp_path)
    assert failed.returncode == 2
    assert failed.stderr.startswith(
        "isthmus: net.toml: clusters[0].sitess: found an unknown key; expected one of name, sites"
    )
    assert failed.stderr.count("\n") == 1


def test_overlays_are_shown_and_drawn(tmp_path: Path) -> None:
    shown = isthmus("overlay", "40", cwd=tmp_path)
    assert shown.returncode == 0
    assert all(kind in shown.stdout for kind in ("hypercube", "incomplete", "clique", "ring", "random"))
    assert "193" in shown.stdout  # 2 * 116 - 39 sends
    drawn = isthmus("overlay", "12", "--kind", "hypercube", "-o", "pictures", cwd=tmp_path)
    assert drawn.returncode == 0
    first = (tmp_path / "pictures" / "hypercube-12.svg").read_bytes()
    again = isthmus("overlay", "12", "--kind", "hypercube", "-o", "pictures", cwd=tmp_path)
    assert again.returncode == 2 and "--force" in again.stderr
    isthmus("overlay", "12", "--kind", "hypercube", "-o", "pictures", "--force", cwd=tmp_path)
    assert (tmp_path / "pictures" / "hypercube-12.svg").read_bytes() == first


def test_an_overlay_of_a_network_tells_how_long_its_links_are(tmp_path: Path) -> None:
    isthmus("shape", "ring", "--sites", "4", "-o", "net.toml", cwd=tmp_path)
    shown = isthmus("overlay", "net.toml", "--kind", "hypercube", cwd=tmp_path)
    assert shown.returncode == 0 and "ids by topology" in shown.stdout


def test_an_overlay_that_cannot_be_is_refused_in_a_sentence(tmp_path: Path) -> None:
    for arguments in (("0",), ("9999",), ("12", "-o", "pictures"), ("12", "--kind", "ring", "--degree", "4")):
        refused = isthmus("overlay", *arguments, cwd=tmp_path)
        assert refused.returncode == 2 and refused.stderr.count("\n") == 1, refused.stderr
