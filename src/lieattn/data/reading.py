"""`read`: the registry of formats, and how one is chosen for a file."""

from __future__ import annotations

import os

from .._core.text import LINE, printable, unknown
from ..groups import Group, get_group
from ._draft import Draft
from ._finish import finish
from ._source import LIMIT, SET_SIZE, Source, load
from ._trajectory import in_nanoseconds
from .errors import DataError
from .formats import euroc, g2o, kitti, ldraw, mmcif, npz, pdb, svg, tum, urdf
from .formats.format import HEAD, Format
from .sets import PoseSets

BAD = ("error", "gaps", "mask")
_SURE = "by its contents and its name"

# One line a format. Sniffed in this order; what cannot be mistaken for another comes first.
_FORMATS: dict[str, Format] = {}
for _module in (npz, svg, urdf, mmcif, pdb, g2o, ldraw, euroc, tum, kitti):
    _FORMATS[_module.FORMAT.name] = _module.FORMAT


def formats() -> dict[str, Format]:
    """All formats that `read` knows, name -> Format."""
    return dict(_FORMATS)


def register(format: Format) -> Format:
    """Make a format of your own known to `read`; it is sniffed after those that are there.

    Raises ValueError if another format has the name.
    """
    taken = _FORMATS.get(format.name, format)
    if taken is not format:
        raise ValueError(
            f"the format {format.name!r} is taken by {taken.title}. Choose another name, such as "
            f"{f'my-{format.name}'!r}."
        )
    _FORMATS[format.name] = format
    return format


def read(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    group: Group | str | None = None,
    bad: str = "error",
    limit: int = LIMIT,
) -> PoseSets:
    """The sets of poses of a file, in float64, checked to be in their group.

    Args:
        path: the file; gzipped ones are unpacked.
        format: one of `formats()`. By default what its contents look like, then what its name
            ends with; `.format` and `.why` of the result tell.
        group: a group to take the poses as, instead of the format's own: a larger one, as Aff3
            for SE3, or the rotations alone, SO3 for SE3 and SO2 for SE2.
        bad: what to do with an invalid pose, such as NaN or a quaternion of norm zero: "error";
            "mask" to keep its place with `mask` False; "gaps" to mask rows of NaN, which stand for
            poses that are not known, and raise on others.
        limit: the most bytes to read and to unpack.
    Raises:
        DataError: names the file, the line and the column, what was expected and what mends it.

    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "walk.txt")
    >>> _ = path.write_text("0.0 1 2 3 0 0 0 1\\n0.1 1 2 4 0 0 1 0\\n")
    >>> sets = read(path)
    >>> sets.format, sets.group, sets[0].poses.shape, sets[0].names
    ('tum', lieattn.SE3, torch.Size([2, 4, 4]), ('0.0', '0.1'))
    >>> folder.cleanup()
    """
    return read_source(load(path, limit), format, group=group, bad=bad)


def read_source(
    source: Source,
    format: str | None = None,
    *,
    group: Group | str | None = None,
    bad: str = "error",
) -> PoseSets:
    """`read` for bytes that are loaded already."""
    if bad not in BAD:
        known = ", ".join(map(repr, BAD))
        raise ValueError(f"bad must be one of {known}, got {bad!r}.")
    chosen, why = _choose(source, format)
    notes, gaps = list[str](), list[str]()
    try:
        drafts = chosen.read(source, notes)
        source.require_few(len(drafts), "sets", SET_SIZE)
        if not drafts or not any(map(len, drafts)):
            raise source.error(f"holds no poses; a file of {chosen.title} has {chosen.holds}.")
        if group is not None:
            drafts = [_as_group(source, draft, get_group(group)) for draft in drafts]
        finished = finish(drafts, source, bad, notes, gaps)
        sets = tuple(x for x in finished if x is not None)
        left_out = tuple(x.name for x, made in zip(drafts, finished, strict=True) if made is None)
        if not sets:
            raise source.error("holds no pose: all are masked.")
    except DataError as error:
        if format is not None:
            raise
        raise error.with_hint(_hint(chosen, why)) from None
    nanoseconds = chosen.nanoseconds and all(in_nanoseconds(x.names) for x in sets)
    said, missing = (tuple(printable(x, LINE) for x in texts) for texts in (notes, gaps))
    return PoseSets(sets, source.path, chosen.name, why, said, left_out, missing, nanoseconds)


def _choose(source: Source, name: str | None) -> tuple[Format, str]:
    """The format to read a file as, and why."""
    if name is not None:
        if name not in _FORMATS:
            raise ValueError(unknown("format", name, _FORMATS))
        return _FORMATS[name], "as asked"
    if not source.data.strip(b"\0 \t\r\n"):
        raise source.error("is empty.")
    head = source.data[:HEAD]
    text = Source(source.path, head).text if b"\0" not in head or _utf16(head) else ""
    looks = [x for x in _FORMATS.values() if x.sniff(head, text)]
    ending = source.path.lower().removesuffix(".gz")
    named = [x for x in _FORMATS.values() if ending.endswith(x.extensions)]
    both = [x for x in looks if x in named]
    if both:
        return both[0], _SURE
    if looks:
        return looks[0], "by its contents"
    if named:
        return named[0], "by its name alone"
    raise source.error(
        f"looks like none of the formats known: {', '.join(_FORMATS)}. Rows of a trajectory have 8 "
        "numbers (tum), 12 (kitti), or 8 and more with commas (euroc). To see what is wrong with "
        "it as one of them, say which with format= or --format."
    )


def _hint(chosen: Format, why: str) -> str:
    """What a file was taken for, and how to force another format."""
    others = "" if why == _SURE else f": {', '.join(_FORMATS)}"
    return f"(Read as {chosen.title}, {why}; format= or --format forces another{others}.)"


def _utf16(head: bytes) -> bool:
    return head.startswith((b"\xff\xfe", b"\xfe\xff"))


def _as_group(source: Source, draft: Draft, group: Group) -> Draft:
    """The draft in another group of the same matrices, or its rotations alone."""
    g, n = draft.matrices, group.n
    if group.matrix_size == n and draft.group.matrix_size == n + 1 and draft.group.n == n:
        g = g[:, :n, :n].contiguous()
    elif group.matrix_size != draft.group.matrix_size:
        m = draft.group.matrix_size
        raise source.error(f"holds {m} x {m} matrices of {draft.group}, not poses of {group}.")
    elif n != draft.group.n and not group.contains(g[g.isfinite().all(-1).all(-1)]).all():
        raise source.error(f"holds poses of {draft.group}, not of {group}.")
    draft.group, draft.matrices = group, g
    return draft
