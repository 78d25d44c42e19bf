"""Files of tensors and JSON, for tests: read whole, signed anew, as earlier versions wrote them."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from lieattn._core import files


def unpack(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All of a file, whatever it holds."""
    held = files.read_header(path)
    return held.tensors(held.kinds), held.about


def as_earlier(tensors: dict[str, Tensor], about: dict[str, Any]) -> bytes:
    """A checkpoint of runs as it was: the checksum is of the text and the data alone."""
    text = json.dumps(about)
    digest = sha256(text.encode())
    for name in sorted(tensors):
        digest.update(tensors[name].numpy().tobytes())
    return save(tensors, {"state": f"{digest.hexdigest()}\n{text}"})


def opened(content: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """What a file says of each tensor, its JSON, and its data."""
    start = 8 + int.from_bytes(content[:8], "little")
    entries = json.loads(content[8:start])
    text = entries.pop("__metadata__")["lieattn"].partition("\n")[2]
    return entries, json.loads(text), content[start:]


def signed(entries: dict[str, Any], text: str, data: bytes) -> bytes:
    """A file with valid checksums, whatever it says: the layout by hand, not as `pack` makes it."""
    blank = "0" * 64
    metadata = {"lieattn": f"2 {blank} {sha256(data).hexdigest()}\n{text}"}
    header = json.dumps({"__metadata__": metadata, **entries}).encode()
    header += b" " * (-len(header) % 8)
    head = len(header).to_bytes(8, "little") + header
    head = head.replace(blank.encode(), sha256(head).hexdigest().encode(), 1)
    return head + data
