"""Key files on the disk: read, and written so that nobody else may read them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from isthmus.core.errors import InputError
from isthmus.live.seal.keys import CLUSTER, IDENTITY, KEY_BYTES, KeyLine, SealKeys, read_lines, seal_keys

FILE_BYTES_MAX = 1 << 18
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_key_file(path: Path | str) -> list[KeyLine]:
    """The lines of a key file; refused if others than its owner may read or change it."""
    source = str(path)
    try:
        with Path(path).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if os.name == "posix" and mode & OTHERS:
                found = f"a file that others may read ({stat.filemode(mode)})"
                raise InputError(source, "", found, f"one for its owner alone: chmod 600 {path}")
            text = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InputError(source, "", f"what cannot be read ({error.strerror})", "a key file") from None
    if len(text) > FILE_BYTES_MAX:
        raise InputError(source, "", "a file that is too large", f"at most {FILE_BYTES_MAX} bytes")
    try:
        return read_lines(text.decode(), source)
    except UnicodeDecodeError:
        raise InputError(source, "", "a file that is not text", "a key file") from None


def write_key_file(path: Path, lines: Iterable[KeyLine], replace: bool = False) -> None:
    """Write a key file for its owner alone; all of it is on the disk, or the old one still is."""
    if path.exists() and not replace:
        raise InputError(str(path), "", "a file already", "a path where there is none")
    fresh = path.with_name(f".{path.name}.new")
    try:
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.writelines(f"{line}\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        raise InputError(str(path), "", f"what cannot be written ({error.strerror})", "a path in a folder") from None


def write_run_key(path: Path) -> Path:
    """Write a key file with a new key, for one run."""
    write_key_file(path, [KeyLine(CLUSTER, os.urandom(KEY_BYTES), "")], replace=True)
    return path


def load_keys(path: Path | str, identity: Path | str | None, site: str) -> SealKeys:
    """The keys of a site, from the cluster's key file and from the site's own, if it has one."""
    own = None
    if identity is not None:
        lines = read_key_file(identity)
        if [line.kind for line in lines] != [IDENTITY]:
            raise InputError(str(identity), "", "what is not one identity", "the file of `isthmus keys identity`")
        own = lines[0]
    return seal_keys(read_key_file(path), str(path), own, site)
