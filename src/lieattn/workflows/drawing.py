"""What all pictures share: style, colours, panels, legends, axes, poses and files.

Text is large enough to be read at half size, and all eyes can tell the colours apart.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from torch import Tensor

from .._core.errors import RunError
from .._core.folders import write_bytes
from .._core.stopping import written
from ..data.windows import has_position_column
from ..groups import Group

Canvas = Figure  # a report has figures of its own
INK, PALE, GRID, TRUTH = "#20262e", "#b8c0cc", "#e5e8ec", "#f0c419"
BLOCK_COLOURS = {  # by kind
    "translation": "#0072B2",
    "rotation": "#D55E00",
    "scale": "#009E73",
    "shear": "#CC79A7",
    "other": "#7a8591",
}
_KNOWN = {
    "G": "#0072B2",
    "G polar": "#56B4E9",
    "C": "#009E73",
    "A": "#D55E00",
    "A with invariants": "#F5B87A",
    "IPA": "#CC79A7",
    "nearest": "#a9b1bd",
    "geodesic": "#5d6673",
    "alike": "#7d8794",
}
_OTHERS = ("#882255", "#999933", "#44AA99", "#332288", "#AA4499", "#DDCC77")
_STYLE: Any = {
    "font.size": 15,
    "axes.titlesize": 16,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: small files, and the reader's own font
    "svg.hashsalt": "lieattn",  # the same figure is the same file
}
ENDINGS = (".png", ".svg", ".pdf")
# From space to paper. The third direction is drawn obliquely.
_TILTED = np.array([[0.954, 0.0, 0.3], [-0.096, 0.947, 0.306]])
_FROM_ABOVE = np.array([[0.86, -0.5, 0.0], [0.28, 0.48, 0.83]])


# ---- figures and files ---------------------------------------------------------------------------


def style() -> Any:
    """The context in which figures are drawn and saved."""
    return mpl.rc_context(_STYLE)


def canvas(width: float, height: float) -> Canvas:
    """An empty figure of so many inches."""
    return Canvas(figsize=(width, height), layout="constrained")


def panels(count: int, width: float, height: float, columns: int = 3) -> tuple[Canvas, list[Any]]:
    """A figure with `count` axes of so many inches each, at most `columns` in a row."""
    columns = min(count, columns)
    rows = -(-count // columns)
    figure = canvas(width * columns, height * rows)
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axis in axes[count:]:
        axis.remove()
    return figure, axes[:count]


def legend(figure: Canvas, looks: dict[str, dict[str, Any]], columns: int = 3) -> None:
    """A legend below all axes: how the line of each label looks."""
    handles = [Line2D([], [], label=label, **look) for label, look in looks.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=columns)


def encoded(draw: Callable[[], Canvas], ending: str = "svg") -> bytes:
    """The file of a figure, without a date."""
    buffer = io.BytesIO()
    metadata = {"Date": None} if ending == "svg" else None
    with style():
        draw().savefig(buffer, format=ending, dpi=110, metadata=metadata)
    return buffer.getvalue()


def require_drawable(path: Path) -> None:
    """Refuse a file that cannot be drawn, before anything is read."""
    if path.suffix.lower() not in ENDINGS:
        raise RunError(f"--plot writes {', '.join(ENDINGS)}, got {path.name!r}.")
    if not path.absolute().parent.is_dir():
        raise RunError(f"cannot write {path}: there is no folder {path.absolute().parent}.")


def save(draw: Callable[[], Canvas], path: Path) -> None:
    """Write a figure in the format that the name asks for."""
    content = encoded(draw, path.suffix.lower().removeprefix("."))
    with written(path):
        write_bytes(path, content, option="--plot")


# ---- numbers -------------------------------------------------------------------------------------


def colours(names: Iterable[str]) -> dict[str, str]:
    """A colour for each method: its own in all pictures, or the next free one if it is new."""
    free = cycle(_OTHERS)
    return {name: _KNOWN.get(name) or next(free) for name in names}


def seeds(axis: Any, x: float, values: Any, colour: str) -> None:
    """A dot for each seed, and their mean as a bar."""
    offsets = np.linspace(-0.12, 0.12, len(values)) if len(values) > 1 else np.zeros(1)
    axis.plot([x - 0.28, x + 0.28], [np.mean(values)] * 2, color=colour, lw=4)
    axis.plot(x + offsets, values, "o", color=colour, ms=8, mec="white")


def log_scale(axis: Any) -> None:
    """A vertical log scale with grid lines and powers of ten."""
    axis.set_yscale("log")
    axis.grid(axis="y", color=GRID)


def ratio_scale(axis: Any) -> None:
    """A vertical log scale with plain numbers, for ratios, and a line at 1."""
    axis.axhline(1, color=INK, lw=1.2)
    log_scale(axis)
    low, high = axis.get_ylim()
    narrow = MaxNLocator(8, steps=(1, 2, 5, 10))
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)) if high > 3 * low else narrow)
    axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.set_ylim(low, high)


# ---- poses ---------------------------------------------------------------------------------------


class Sketch(NamedTuple):
    """Poses on paper."""

    where: np.ndarray  # [N, 2], positions
    along: np.ndarray  # [N, 2, n], axes
    label: str  # the projection, to be named on the picture; blank in the plane

    def rows(self, chosen: Any) -> Sketch:
        """Some of the poses."""
        return Sketch(self.where[chosen], self.along[chosen], self.label)


def sketch(group: Group, g: Tensor, places: Tensor | None = None) -> Sketch:
    """Poses `[N, m, m]` on paper; without positions they are set out in rows.

    Args:
        places: `[N]`, which place in the rows each pose has; a place of its own by default.
    """
    axes = g[:, : group.n, : group.n].double()
    if not has_position_column(group):
        index = torch.arange(len(g)) if places is None else places
        columns = int(np.ceil(np.sqrt(2 * (int(index.max()) + 1))))
        where = torch.stack((index % columns, -(index // columns)), -1).double()
        view = torch.eye(2).double() if group.n == 2 else torch.from_numpy(_FROM_ABOVE)
        label = "" if group.n == 2 else "axes seen obliquely from above"
        return Sketch(where.numpy(), (view @ axes).numpy(), label)
    t = g[:, :-1, -1].double()
    if group.n == 2:
        return Sketch(t.numpy(), axes.numpy(), "")
    # Upon the two directions in which the positions spread most, tilted to show the third.
    centred = t - t.mean(0)
    size = centred.abs().max()
    _, vectors = torch.linalg.eigh((centred / size).mT @ (centred / size) if size > 0 else t.mT @ t)
    view = torch.from_numpy(_TILTED) @ vectors.flip(-1).mT
    label = "oblique view on the plane of largest spread"
    return Sketch((centred @ view.mT).numpy(), (view @ axes).numpy(), label)


def axis_length(poses: Sketch) -> float:
    """Factor by which axes are drawn: the typical one a twentieth of the picture."""
    extent = np.ptp(poses.where, axis=0).max() if len(poses.where) > 1 else 1.0
    typical = np.median(np.linalg.norm(poses.along, axis=1))
    return float(0.05 * (extent or 1.0) / max(typical, 1e-300))


def frames(axis: Any, poses: Sketch, colours: Any, length: float, width: float, order: int) -> None:
    """Draw poses as axes: in one colour with the x axis longer, or in a colour for each axis."""
    single = isinstance(colours, str)
    for k in range(poses.along.shape[-1]):
        arms = poses.along[:, :, k] * length * (1.35 if single and k == 0 else 1.0)
        ends = np.stack([poses.where, poses.where + arms], 1).transpose(2, 1, 0)
        colour = colours if single else colours[k]
        axis.plot(*ends, color=colour, lw=width, solid_capstyle="round", zorder=order)


def finish(axis: Any, poses: Sketch, group: Group, y_down: bool = False) -> None:
    """Set equal scales; name unit and projection; let y point downwards as in the file."""
    axis.set_aspect("equal", adjustable="datalim")
    axis.margins(0.08)
    if not has_position_column(group):
        axis.set(xticks=[], yticks=[], frame_on=False)
        axis.set_xlabel(poses.label)
        return
    down = ", y downwards" if y_down else ""
    axis.set_xlabel(f"in the file's unit{down}" + f",\n{poses.label}" * bool(poses.label))
    if y_down:
        axis.invert_yaxis()
