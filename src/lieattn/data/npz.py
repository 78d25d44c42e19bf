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
import os
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterable
from typing import Any

import torch
from torch import Tensor

from ..groups import SE2, SE3, SO2, SO3, Aff2, Aff3, Group, Sim2, Sim3, get_group
from ._draft import ROUNDING, Draft
from ._needs import needs
from ._source import LIMIT, Source, stem
from .batches import collate
from .errors import DataError, printable, quoted
from .format import Format
from .sets import PoseSet

_ENTRIES = ("poses", "mask", "names", "set_names", "sources", "group")
_OURS = (*_ENTRIES, "splits", "about")  # of the data sets that come along
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
        notes.append(f"left out arrays of other names: {printable(', '.join(ignored))}.")
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
        held = printable(", ".join(found)) or "nothing"
        raise source.error(f"has no array 'poses' [S, N, m, m] or [N, m, m]; it holds {held}.")
    if poses.dtype.kind not in "fiu" or poses.dtype.itemsize > 8:
        dtype = printable(str(poses.dtype))
        raise source.error(f"poses are of dtype {dtype}, expected float64 or float32.")
    if poses.ndim not in (3, 4) or poses.shape[-1] != poses.shape[-2]:
        shape = list(poses.shape)
        hint = " Rows (x, y, z, quaternion) go into a TUM file." if shape[-1:] == [7] else ""
        raise source.error(f"poses are {shape}, expected [S, N, m, m] or [N, m, m].{hint}")
    if 0 in poses.shape:
        raise source.error(f"poses are {list(poses.shape)}: there are none.")
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


def _product(shape: tuple[int, ...]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result


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
    found: dict[str, Any] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
            members = {x.filename.removesuffix(".npy"): x for x in archive.infolist()}
            total = sum(x.file_size for name, x in members.items() if name in wanted)
            if total > source.limit:
                raise source.too_large(f"{total / 1e6:.3g} MB when unpacked")
            for name, member in members.items():
                # No more than it claims: a member that holds more fails its checksum.
                data = archive.read(member) if name in wanted else None
                found[name] = None if data is None else _array(source, np, name, data)
    except DataError:
        raise
    except (NotImplementedError, RuntimeError) as error:  # encrypted, unknown compression
        raise source.error(f"cannot be unpacked: {error}.") from None
    except _DAMAGE as error:
        reason = printable(str(error))
        raise source.error(f"is damaged or cut short ({reason}). Copy it again.") from None
    return found


def _array(source: Source, np: Any, name: str, data: bytes) -> Any:
    """An array of the .npy format, without numpy.load: its header is checked before its size."""
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            read = np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except (ValueError, SyntaxError, TypeError, EOFError, MemoryError, RecursionError) as error:
        reason = printable(str(error))
        raise source.error(f"{quoted(name)} is no array of numpy: {reason}.") from None
    if dtype.hasobject:
        raise source.error(
            f"{quoted(name)} holds pickled Python objects, which are never loaded: they may run "
            "any code. Save it as numbers (dtype float64) or text."
        )
    start = stream.tell()
    if dtype.itemsize == 0 or not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        raise source.error(f"{quoted(name)} has a header of no possible size. {_DAMAGED}")
    what = f"{quoted(name)} should be {list(shape)} of {printable(str(dtype))}, but"
    if _product(shape) * dtype.itemsize != len(data) - start:
        raise source.error(f"{what} it holds {len(data) - start} bytes. {_DAMAGED}")
    flat = np.frombuffer(data, dtype=dtype, offset=start)
    try:
        return flat.reshape(shape, order="F" if fortran else "C")
    except ValueError as error:  # an empty array of too many or too large dimensions
        raise source.error(f"{what} {printable(str(error))}. {_DAMAGED}") from None


_DAMAGED = "The file is damaged."


FORMAT = Format(
    "npz",
    "numpy arrays",
    (".npz", ".npy"),
    "any group, poses [S, N, m, m] or [N, m, m]",
    _sniff,
    _read,
)
