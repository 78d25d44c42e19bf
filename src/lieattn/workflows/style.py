"""How figures look: large enough to be read at half size, colours that all eyes tell apart."""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

COLOURS = {"G": "#0072B2", "C": "#009E73", "A": "#D55E00"}
BLOCK_COLOURS = {  # by kind
    "translation": "#0072B2",
    "rotation": "#D55E00",
    "scale": "#009E73",
    "shear": "#CC79A7",
    "other": "#7a8591",
}
INK, PALE, TRUTH = "#20262e", "#b8c0cc", "#f0c419"

_SETTINGS: Any = {
    "font.size": 15,
    "axes.titlesize": 16,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: small files, and the reader's own font
    "svg.hashsalt": "lieattn",  # the same figure is the same file
}


def canvas(width: float, height: float) -> Canvas:
    """An empty figure of so many inches."""
    with mpl.rc_context(_SETTINGS):
        return Canvas(figsize=(width, height), layout="constrained")


def style() -> Any:
    """The context in which to draw."""
    return mpl.rc_context(_SETTINGS)


def to_svg(figure: Canvas) -> bytes:
    """The file of a figure, without a date."""
    buffer = io.BytesIO()
    with mpl.rc_context(_SETTINGS):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
