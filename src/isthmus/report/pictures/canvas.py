"""Colours, style and writing of the pictures of networks, overlays, compositions and witnesses."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

INK, SOFT, PAPER = "#1b2330", "#5b6573", "#ffffff"
STYLE: Any = {"font.family": "DejaVu Sans", "svg.hashsalt": "isthmus", "svg.fonttype": "path", "path.simplify": False}


def save_picture(figure: Figure, path: Path, kind: str = "") -> None:
    kind = kind or path.suffix[1:].lower()
    metadata = {"Date": None, "Creator": "Isthmus"} if kind == "svg" else {"Software": None}
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # characters missing in the font become boxes
        figure.savefig(path, format=kind, metadata=metadata)


def counts_text(counts: Sequence[tuple[int, str]]) -> str:
    """3 clusters, 1 site."""
    return ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts)


def shorten(name: str, length: int) -> str:
    return name if len(name) <= length else name[: length - 1] + "\N{HORIZONTAL ELLIPSIS}"
