"""`.npz` and `.npy` arrays of matrices.

    poses      [S, N, m, m] or [N, m, m], numbers
    mask       [S, N] or [N], True where there is a pose           (optional)
    names      [S, N] or [N], text, one a pose                     (optional)
    set_names  [S], text, one a set                                (optional)
    sources    [S], text, the file that a set is from: `split` keeps these together (optional)
    group      text, such as "SE3"; guessed from the matrices if it is not there

Sets of `[S, N, m, m]` are padded at their ends. Padding is False in the mask, or NaN where there
is no mask, and has no name.

Nothing is unpickled, and arrays are unpacked no further than the limit.
"""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor

from ..._core.text import listed, printable, quoted
from ...groups import Group, available_groups, get_group
from .._draft import ROUNDING, Draft
from .._needs import needs
from .._source import LIMIT, SET_SIZE, Source, stem, up_to
from ..batches import collate
from ..errors import DataError
from ..sets import PoseSet
from .format import Format

_ENTRIES = ("poses", "mask", "names", "set_names", "sources", "group")
_OURS = (*_ENTRIES, "splits", "about")  # of the built-in data sets
_MOST_MEMBERS = 1000
_LONGEST_HEADER = 10_000  # bytes, as numpy has it
_FLOAT32 = 1e-6  # rounding of matrices that were saved as float32
_DAMAGED = "The file is damaged."


def _write(sets: Sequence[PoseSet], nanoseconds: bool) -> bytes:
    """Sets of one group, padded, with mask and names."""
    _require_readable(sets)
    batch = collate(sets, torch.float64)
    np = needs("numpy", ".npz files", "save")
    size = batch.poses.shape[1]
    content = io.BytesIO()
    np.savez_compressed(
        content,
        poses=batch.poses.numpy(),
        mask=batch.mask.numpy(),
        names=np.array([[*x.names, *[""] * (size - len(x))] for x in sets], dtype=str),
        set_names=np.array([x.name for x in sets], dtype=str),
        sources=np.array([x.source for x in sets], dtype=str),
        group=np.array(sets[0].group.name),
    )
    return content.getvalue()


def _require_readable(sets: Sequence[PoseSet]) -> None:
    """Refuse sets that would fill a file with more padding than `read` takes."""
    longest = max((len(x) for x in sets), default=0)
    letters = max((len(name) for x in sets for name in x.names), default=0)
    numbers = max((8 * x.group.matrix_size**2 for x in sets), default=0)
    size = len(sets) * longest * (numbers + 1 + 4 * letters)  # numpy pads text, 4 bytes a letter
    if size > LIMIT:
        raise ValueError(
            f"{len(sets)} sets padded to {longest:,} poses are {size / 1e6:,.0f} MB, more than the "
            f"{LIMIT / 1e6:,.0f} MB that read takes. Save long and short sets in different files, "
            "cut them with data.windows, or give shorter names."
        )


def _sniff(head: bytes, text: str) -> bool:
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY"))


def _read(source: Source, notes: list[str]) -> list[Draft]:
    found = arrays(source, _ENTRIES)
    ignored = [name for name in found if name not in _OURS]
    if ignored:
        notes.append(f"left out arrays of other names: {listed(ignored)}.")
    poses = _poses(source, found)
    shape, several = poses.shape[:-2], poses.ndim == 4
    g = torch.from_numpy(poses.astype("f8", order="C")).reshape(-1, *poses.shape[-3:])
    count, size = g.shape[:2]
    given = _mask(source, found.get("mask"), shape)
    there = ~g.isnan().all(-1).all(-1) if given is None else given.reshape(count, size)
    mask = torch.ones_like(there) if given is None else there
    names = _texts(source, "names", found.get("names"), shape)
    titles = _texts(source, "set_names", found.get("set_names"), shape[: int(several)])
    sources = _texts(source, "sources", found.get("sources"), shape[: int(several)])
    group = _group(source, found.get("group"), g[mask], notes)
    ends = _ends(there, names) if several else [size]
    names = names or [str(i) for i in range(size)] * count
    titles = titles or ([f"set {i}" for i in range(count)] if several else [stem(source.path)])
    return [
        Draft(
            group,
            g[i, :end],
            names[i * size : i * size + end],
            name=titles[i],
            mask=mask[i, :end],
            source=sources[i] if sources else "",
        )
        for i, end in enumerate(ends)
    ]


def _poses(source: Source, found: dict[str, Any]) -> Any:
    """The array of poses, refused if it is missing or has another shape."""
    poses = found.get("poses")
    if poses is None:
        held = listed(list(found)) or "nothing"
        raise source.error(f"has no array 'poses' [S, N, m, m] or [N, m, m]; it holds {held}.")
    if poses.dtype.kind not in "fiu" or poses.dtype.itemsize > 8:
        raise source.error(f"poses are of dtype {poses.dtype}, expected float64 or float32.")
    shape = list(poses.shape)
    if len(shape) not in (3, 4) or shape[-1] != shape[-2]:
        hint = " Rows (x, y, z, quaternion) go into a TUM file." if shape[-1:] == [7] else ""
        raise source.error(f"poses are {shape}, expected [S, N, m, m] or [N, m, m].{hint}")
    if 0 in shape:
        raise source.error(f"poses are {shape}: there are none.")
    if 8 * poses.size > source.limit:
        raise source.too_large(f"{8 * poses.size / 1e6:.3g} MB as float64")
    if len(shape) == 4:
        source.require_few(shape[0], "sets", SET_SIZE)
    return poses


def _ends(there: Tensor, names: list[str] | None) -> list[int]:
    """Where each set's padding begins: after its last row `[S, N]` that has a pose or a name.

    Rows with a name are gaps, because `save` names no padding. Sets without any row keep all.
    """
    if names is not None:
        there = there | torch.tensor([name != "" for name in names]).reshape(there.shape)
    size = there.shape[-1]
    ends = (there * torch.arange(1, size + 1)).amax(-1)
    return torch.where(ends > 0, ends, size).tolist()


def _mask(source: Source, mask: Any, shape: tuple[int, ...]) -> Tensor | None:
    if mask is None:
        return None
    if mask.dtype.kind != "b" or mask.shape != shape:
        expected = f"bool {list(shape)}, True where there is a pose"
        raise source.error(f"mask is {mask.dtype} {list(mask.shape)}, expected {expected}.")
    return torch.from_numpy(mask.copy())


def _texts(source: Source, name: str, texts: Any, shape: tuple[int, ...]) -> list[str] | None:
    if texts is None:
        return None
    if texts.dtype.kind not in "US" or texts.shape not in (shape, shape or (1,)):
        expected = f"text {list(shape)}"
        raise source.error(f"{name} are {texts.dtype} {list(texts.shape)}, expected {expected}.")
    flat = texts.reshape(-1).tolist()
    return [x.decode("utf-8", errors="replace") if isinstance(x, bytes) else x for x in flat]


def _group(source: Source, entry: Any, g: Tensor, notes: list[str]) -> Group:
    """The group that the file names, or the smallest one that holds the matrices."""
    m = g.shape[-1]
    if entry is None:
        return _guess(source, g[g.isfinite().all(-1).all(-1)], notes)
    (name,) = _texts(source, "group", entry, ()) or [""]
    try:
        group = get_group(name)
    except ValueError as error:
        raise source.error(f"its group is {quoted(name)}: {error}") from None
    if group.matrix_size != m:
        expected = f"[..., {group.matrix_size}, {group.matrix_size}]"
        raise source.error(f"poses are [..., {m}, {m}], those of its {group} are {expected}.")
    return group


def _guess(source: Source, g: Tensor, notes: list[str]) -> Group:
    """The registered group of the fewest dimensions that holds the matrices `[N, m, m]`.

    The largest group takes what no other holds, and its check says what is wrong with it. Groups of
    translations alone are left out: poses that do not turn in one file may turn in the next.
    """
    m, known = g.shape[-1], available_groups().values()
    groups = sorted((x for x in known if x.matrix_size == m), key=lambda x: x.dim)
    groups = [x for x in groups if {b.kind for b in x.blocks} != {"translation"}] or groups
    if not groups:
        *sizes, last = sorted({x.matrix_size for x in known})
        rows = f"{', '.join(map(str, sizes))} or {last}"
        raise source.error(f"matrices are {m} x {m}; the groups known have {rows} rows.")
    for rounding in (_FLOAT32, ROUNDING):
        holds = [x for x in groups[:-1] if len(g) and _holds(x, g, rounding)]
        if holds:
            first, others = holds[0], [x for x in holds if x.n != holds[0].n]
            if others:
                name = others[0].name
                notes.append(
                    f"poses are taken as of {first}, and could be of {others[0]}; group={name!r} "
                    f"(--group {name}), or an array `group` in the file, says that they are."
                )
            return first
    return groups[-1]


def _holds(group: Group, g: Tensor, rounding: float) -> bool:
    """Whether all matrices are in the group, or as near as rounding leaves them."""
    near = (group.project(g) - g).abs().amax((-2, -1)) <= rounding
    return bool((near | group.contains(g)).all())


def arrays(source: Source, wanted: Collection[str]) -> dict[str, Any]:
    """The arrays of a file by name, no larger than the limit; None for those not wanted."""
    if source.data.startswith(b"\x93NUMPY"):
        return {"poses": _array(source, "poses", source.data)}
    count = source.data.count(b"PK\x01\x02")  # each begins so in the directory
    if count > _MOST_MEMBERS:
        raise source.error(f"holds {count:,} arrays, more than {_MOST_MEMBERS:,}.")
    found: dict[str, Any] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
            members = [(x.filename.removesuffix(".npy"), x) for x in archive.infolist()]
            total = sum(x.file_size for name, x in members if name in wanted)
            if total > source.limit:
                raise source.too_large(f"{total / 1e6:.3g} MB when unpacked")
            for name, member in members:
                if name in found:
                    raise source.error(f"holds {quoted(name)} twice. Save the arrays anew.")
                data = _unpacked(source, archive, member) if name in wanted else None
                found[name] = None if data is None else _array(source, name, data)
    except DataError:
        raise
    except (NotImplementedError, RuntimeError) as error:  # encrypted, unknown compression
        raise source.error(f"cannot be unpacked: {error}.") from None
    except Exception as error:  # zipfile raises a dozen kinds on damaged archives
        reason = printable(str(error))
        raise source.error(f"is damaged or cut short ({reason}). Copy it again.") from None
    return found


def _unpacked(source: Source, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The bytes of a member, no more than the directory says.

    Read in blocks: a whole `read` unpacks everything before it compares sizes. Methods that numpy
    does not write are refused, because bzip2 and LZMA are not unpacked in blocks.
    """
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise source.error(
            f"{quoted(member.filename)} is packed by method {member.compress_type} of zip, "
            "expected what numpy.savez and numpy.savez_compressed write. Save it with one of these."
        )
    with archive.open(member) as stream:
        data = up_to(stream, member.file_size)
    if data is None or len(data) != member.file_size:
        raise source.error(
            f"{quoted(member.filename)} has another size than the file says. {_DAMAGED}"
        )
    return data


def _array(source: Source, name: str, data: bytes) -> Any:
    """An array of the .npy format; its size is compared with its header before it is made."""
    np = needs("numpy", ".npz files", source.path)
    stream, form = io.BytesIO(data), np.lib.format
    try:
        with warnings.catch_warnings(action="ignore"):  # about headers of Python 2
            headers = {(1, 0): form.read_array_header_1_0, (2, 0): form.read_array_header_2_0}
            header = headers[form.read_magic(stream)]
            shape, fortran, dtype = header(stream, max_header_size=_LONGEST_HEADER)
        start, size = stream.tell(), math.prod(shape) * dtype.itemsize
        sized = dtype.itemsize > 0 and all(type(n) is int and 0 <= n < 1 << 63 for n in shape)
        if sized and size == len(data) - start and not dtype.hasobject:
            flat = np.frombuffer(data, dtype=dtype, offset=start)
            return flat.reshape(shape, order="F" if fortran else "C")
    except Exception as error:  # numpy's parser raises a dozen kinds on damaged headers
        reason = printable(str(error).partition("\n")[0])
        problem = f"{quoted(name)} is no array of numpy that can be read ({reason}). {_DAMAGED}"
        raise source.error(problem) from None
    if dtype.hasobject:
        raise source.error(
            f"{quoted(name)} holds pickled Python objects, which are never loaded: they may run "
            "any code. Save it as numbers (dtype float64) or text."
        )
    if not sized:
        raise source.error(f"{quoted(name)} has a header of no possible size. {_DAMAGED}")
    what = f"{quoted(name)} should be {list(shape)} of {dtype}, but"
    raise source.error(f"{what} it holds {len(data) - start} bytes. {_DAMAGED}")


FORMAT = Format(
    "npz",
    "numpy arrays",
    (".npz", ".npy"),
    "any group, poses [S, N, m, m] or [N, m, m]",
    _sniff,
    _read,
    _write,
)
