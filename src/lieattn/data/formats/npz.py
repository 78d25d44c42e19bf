"""`.npz` and `.npy` arrays of matrices, and `save`, which writes them.

    poses      [S, N, m, m] or [N, m, m], numbers
    mask       [S, N] or [N], True where there is a pose           (optional)
    names      [S, N] or [N], text, one a pose                     (optional)
    set_names  [S], text, one a set                                (optional)
    sources    [S], text, the file that a set is from: `split` keeps these together (optional)
    group      text, such as "SE3"; guessed from the matrices if it is not there

Sets of `[S, N, m, m]` are padded at their ends: rows that the mask leaves out, or of NaN where
there is no mask, and that have no name.

Nothing is unpickled, and arrays are unpacked no further than the limit.
"""

from __future__ import annotations

import io
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterable
from typing import Any

import torch
from torch import Tensor

from ..._core.text import listed, printable, quoted
from ...groups import SE2, SE3, SO2, SO3, Aff2, Aff3, Group, Sim2, Sim3, get_group
from .._draft import ROUNDING, Draft
from .._needs import needs
from .._source import LIMIT, SET_SIZE, Source, stem, up_to
from ..batches import collate
from ..errors import DataError
from ..sets import PoseSet
from .format import Format

_ENTRIES = ("poses", "mask", "names", "set_names", "sources", "group")
_OURS = (*_ENTRIES, "splits", "about")  # of the data sets that come along
_MOST_MEMBERS = 1000
_LONGEST_HEADER = 10_000  # bytes, as numpy has it
_ENTRY = re.compile(r"'(descr|fortran_order|shape)'\s*:\s*('[^']*'|True|False|\([^()]*\))\s*,?\s*")
_DTYPE = re.compile(r"'([<>|=]?(?:[fiucb]\d{1,2}|[SU]\d{1,9}|O\d?))'")
# What zipfile raises on archives that are none, or whose directory lies.
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, LookupError),
    *(OverflowError, MemoryError),
)
# By matrix size, the smallest first; an affine group takes whatever is left.
_GUESSES: dict[int, tuple[Group, ...]] = {
    2: (SO2,),
    3: (SE2, SO3, Sim2, Aff2),
    4: (SE3, Sim3, Aff3),
}


def save(path: str | os.PathLike[str], sets: Iterable[PoseSet]) -> None:
    """Write sets of one group to an `.npz` that `read` reads: padded, with mask and names.

    It is written beside its place and moved there: no interruption leaves half a file.
    """
    sets = list(sets)
    _require_readable(sets)
    batch = collate(sets, torch.float64)
    name = os.fspath(path)
    np = needs("numpy", ".npz files", name)
    size = batch.poses.shape[1]
    names = [[*x.names, *[""] * (size - len(x))] for x in sets]
    part = f"{name}.{os.getpid()}.part"
    try:
        with open(part, "wb") as file:
            np.savez_compressed(
                file,
                poses=batch.poses.numpy(),
                mask=batch.mask.numpy(),
                names=np.array(names, dtype=str),
                set_names=np.array([x.name for x in sets], dtype=str),
                sources=np.array([x.source for x in sets], dtype=str),
                group=np.array(sets[0].group.name),
            )
        os.replace(part, name)
    finally:
        if os.path.exists(part):
            os.unlink(part)


def _require_readable(sets: list[PoseSet]) -> None:
    """Refuse sets that would fill a file with more padding than `read` takes."""
    if not sets:
        return
    longest = max(len(x) for x in sets)
    letters = max((len(name) for x in sets for name in x.names), default=0)
    numbers = 8 * sets[0].group.matrix_size ** 2
    size = len(sets) * longest * (numbers + 1 + 4 * letters)  # a letter is 4 bytes, names of a size
    if size > LIMIT:
        raise ValueError(
            f"{len(sets)} sets padded to {longest:,} poses are {size / 1e6:,.0f} MB, more than the "
            f"{LIMIT / 1e6:,.0f} MB that read takes. Save long and short sets in different files, "
            "cut them with data.windows, or give shorter names."
        )


def _sniff(head: bytes, text: str) -> bool:
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY"))


def _read(source: Source, notes: list[str]) -> list[Draft]:
    np = needs("numpy", ".npz files", source.path)
    found = arrays(source, np, _ENTRIES)
    ignored = [name for name in found if name not in _OURS]
    if ignored:
        notes.append(f"left out arrays of other names: {listed(ignored)}.")
    poses = _poses(source, found)
    several = poses.ndim == 4
    g = torch.from_numpy(np.array(poses, dtype=np.float64).reshape(-1, *poses.shape[-3:]))
    count, size = g.shape[:2]
    mask = _mask(source, found.get("mask"), poses.shape[:-2]).reshape(count, size)
    there = mask if found.get("mask") is not None else ~g.isnan().all(-1).all(-1)
    names = _texts(source, "names", found.get("names"), poses.shape[:-2])
    titles = _texts(source, "set_names", found.get("set_names"), poses.shape[: int(several)])
    sources = _texts(source, "sources", found.get("sources"), poses.shape[: int(several)])
    group = _group(source, found.get("group"), g[mask], notes)
    ends = _ends(there, names) if several else [size]
    if names is None:
        names = [str(i) for i in range(size)] * count
    if titles is None:
        titles = [f"set {i}" for i in range(count)] if several else [stem(source.path)]
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
    """The array of poses, refused if it is not there or has not their shape."""
    poses = found.get("poses")
    if poses is None:
        held = listed(list(found)) or "nothing"
        raise source.error(f"has no array 'poses' [S, N, m, m] or [N, m, m]; it holds {held}.")
    if poses.dtype.kind not in "fiu" or poses.dtype.itemsize > 8:
        raise source.error(f"poses are of dtype {poses.dtype}, expected float64 or float32.")
    if poses.ndim not in (3, 4) or poses.shape[-1] != poses.shape[-2]:
        shape = list(poses.shape)
        hint = " Rows (x, y, z, quaternion) go into a TUM file." if shape[-1:] == [7] else ""
        raise source.error(f"poses are {shape}, expected [S, N, m, m] or [N, m, m].{hint}")
    if 0 in poses.shape:
        raise source.error(f"poses are {list(poses.shape)}: there are none.")
    if 8 * poses.size > source.limit:
        raise source.too_large(f"{8 * poses.size / 1e6:.3g} MB as float64")
    if poses.ndim == 4:
        source.require_few(len(poses), "sets", SET_SIZE)
    return poses


def _ends(there: Tensor, names: list[str] | None) -> list[int]:
    """Where each set's padding begins: after its last row `[S, N]` that has a pose or a name.

    Rows with a name are gaps, as `save` names no padding. Sets without any row keep all.
    """
    if names is not None:
        there = there | torch.tensor([name != "" for name in names]).reshape(there.shape)
    size = there.shape[-1]
    ends = (there * torch.arange(1, size + 1)).amax(-1)
    return torch.where(ends > 0, ends, size).tolist()


def _mask(source: Source, mask: Any, shape: tuple[int, ...]) -> Tensor:
    if mask is None:
        return torch.ones(shape, dtype=torch.bool)
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
    if entry is not None:
        (name,) = _texts(source, "group", entry, ()) or [""]
        try:
            group = get_group(name)
        except ValueError as error:
            raise source.error(f"its group is {quoted(name)}: {error}") from None
        if group.matrix_size != m:
            expected = f"[..., {group.matrix_size}, {group.matrix_size}]"
            raise source.error(f"poses are [..., {m}, {m}], those of its {group} are {expected}.")
        return group
    if m not in _GUESSES:
        raise source.error(f"matrices are {m} x {m}; the groups known have 2, 3 or 4 rows.")
    finite = g[g.isfinite().all(-1).all(-1)]
    for group in _GUESSES[m][:-1]:
        near = group.project(finite)
        close = ((near - finite).abs().amax((-2, -1)) <= ROUNDING) | group.contains(finite)
        if len(finite) and close.all():
            if group is SE2 and SO3.contains(finite).all():
                notes.append(
                    "turns about z are taken as poses of SE(2); group='SO3' (--group SO3), or an "
                    "array `group` in the file, says that they are rotations."
                )
            return group
    return _GUESSES[m][-1]


def arrays(source: Source, np: Any, wanted: Collection[str]) -> dict[str, Any]:
    """The arrays of a file, each of the size that it says, none larger than the limit.

    Those that are not wanted are None: they are not unpacked.
    """
    if source.data.startswith(b"\x93NUMPY"):
        return {"poses": _array(source, np, "poses", source.data)}
    count = source.data.count(b"PK\x01\x02")  # each begins so in the directory
    if count > _MOST_MEMBERS:
        raise source.error(f"holds {count:,} arrays, more than {_MOST_MEMBERS:,}.")
    found: dict[str, Any] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
            members = archive.infolist()
            names = [x.filename.removesuffix(".npy") for x in members]
            total = sum(
                x.file_size for x, name in zip(members, names, strict=True) if name in wanted
            )
            if total > source.limit:
                raise source.too_large(f"{total / 1e6:.3g} MB when unpacked")
            for member, name in zip(members, names, strict=True):
                if name in found:
                    raise source.error(f"holds {quoted(name)} twice. Save the arrays anew.")
                data = _unpacked(source, archive, member) if name in wanted else None
                found[name] = None if data is None else _array(source, np, name, data)
    except DataError:
        raise
    except (NotImplementedError, RuntimeError) as error:  # encrypted, unknown compression
        raise source.error(f"cannot be unpacked: {error}.") from None
    except _DAMAGE as error:
        reason = printable(str(error))
        raise source.error(f"is damaged or cut short ({reason}). Copy it again.") from None
    return found


def _unpacked(source: Source, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The bytes of a member, no more than the directory says.

    In blocks, as `read` of a whole member unpacks all that there is before it looks at the size.
    Methods that numpy does not write are refused: those of bzip2 and LZMA know no blocks.
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


def _array(source: Source, np: Any, name: str, data: bytes) -> Any:
    """An array of the .npy format, without numpy.load: its header is checked before its size."""
    dtype, fortran, shape, start = _header(source, np, name, data)
    if dtype.hasobject:
        raise source.error(
            f"{quoted(name)} holds pickled Python objects, which are never loaded: they may run "
            "any code. Save it as numbers (dtype float64) or text."
        )
    what = f"{quoted(name)} should be {list(shape)} of {dtype}, but"
    if math.prod(shape) * dtype.itemsize != len(data) - start:
        raise source.error(f"{what} it holds {len(data) - start} bytes. {_DAMAGED}")
    flat = np.frombuffer(data, dtype=dtype, offset=start)
    try:
        return flat.reshape(shape, order="F" if fortran else "C")
    except ValueError as error:  # an empty array of too many or too large dimensions
        raise source.error(f"{what} {error}. {_DAMAGED}") from None


def _header(source: Source, np: Any, name: str, data: bytes) -> tuple[Any, bool, list[int], int]:
    """What the header says: dtype, whether columns come first, shape; and where it ends.

    A dictionary of three entries in Python's notation. Nothing of it is evaluated.
    """
    if data[:6] != b"\x93NUMPY" or data[6:7] not in (b"\1", b"\2", b"\3"):
        raise source.error(f"{quoted(name)} is no array of numpy: it does not begin as one.")
    first = 10 if data[6] == 1 else 12
    stop = first + int.from_bytes(data[8:first], "little")
    if stop - first > _LONGEST_HEADER or stop > len(data):
        raise source.error(f"{quoted(name)} is no array of numpy: its header does not end.")
    text = data[first:stop].decode("latin-1")
    entries = dict(_ENTRY.findall(text))
    descr = _DTYPE.fullmatch(entries.get("descr", ""))
    if _ENTRY.sub("", text).strip(" \n{}") or len(entries) != 3 or descr is None:
        raise source.error(
            f"{quoted(name)} is no array of numpy that is read here, one of numbers or of text: "
            f"its header is {quoted(text.strip(), 120)}."
        )
    shape = [n.strip().removesuffix("L") for n in entries["shape"].strip("(,) ").split(",")]
    shape = [] if shape == [""] else shape
    sized = all(n.isascii() and n.isdigit() and len(n) < 20 for n in shape)
    try:
        dtype = np.dtype(descr[1])
    except (TypeError, ValueError):  # floats of 3 bytes, letters by the billion
        sized = False
    if not sized or dtype.itemsize == 0:
        raise source.error(f"{quoted(name)} has a header of no possible size. {_DAMAGED}")
    return dtype, entries["fortran_order"] == "True", [int(n) for n in shape], stop


_DAMAGED = "The file is damaged."


FORMAT = Format(
    "npz",
    "numpy arrays",
    (".npz", ".npy"),
    "any group, poses [S, N, m, m] or [N, m, m]",
    _sniff,
    _read,
)
