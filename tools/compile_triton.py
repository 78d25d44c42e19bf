"""Compile the Triton kernels for a GPU that need not be there; registers and spills of each.

    python tools/compile_triton.py [compute capability, default 80] [--ir]

With `--ir` only as far as Triton's own representation, in seconds: what the interpreter lets pass
and the compiler refuses shows up there.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

from lieattn.ops.triton import kernels
from lieattn.ops.triton.op import BLOCK, STAGES, WARPS

KERNELS = ("forward", "backward_queries", "backward_keys")
OPTIONS = {"num_warps": WARPS, "num_stages": STAGES}


def source(name: str, affine: bool, ones: bool = False) -> ASTSource:
    """A kernel with everything switched on. Arguments up to H are pointers, the rest sizes.

    Triton makes a constant of every size that is 1; with `ones` all of them are.
    """
    kernel = getattr(kernels, name)
    names = kernel.arg_names
    constants: dict[str, Any] = {x: True for x in names if x.isupper() and x != "H"}
    constants |= {"AFFINE": affine, "FEATURES": 7 if affine else 21}
    constants |= {"BLOCK": BLOCK, "WIDTH": 64}
    types = {}
    for index, x in enumerate(names):
        pointer = {"mask": "*u8", "rows": "*fp64"}.get(x, "*fp32")
        number = "fp32" if x in ("limit", "slope") else "i32"
        types[x] = pointer if index < names.index("H") else number
        if ones and types[x] == "i32" and x not in constants:
            constants[x] = 1
        if x in constants:
            types[x] = "constexpr"
    places = {(names.index(x),): value for x, value in constants.items()}
    return ASTSource(kernel, signature=types, constexprs=places)


def to_ir(src: ASTSource, target: GPUTarget) -> str:
    """Triton's representation of a kernel."""
    backend = make_backend(target)
    options = backend.parse_options(OPTIONS)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    functions, modules = backend.get_codegen_implementation(options), backend.get_module_map()
    return str(src.make_ir(target, options, functions, modules, context))


def usage(cubin: bytes) -> str:
    """What ptxas gave a kernel: registers, and bytes of stack that it spills to."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(cubin)
        text = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True)
    registers, stack = re.findall(r"REG:(\d+) STACK:(\d+)", text.stdout)[-1]
    return f"{registers} registers, {stack} bytes of stack"


def main() -> None:
    numbers = [int(x) for x in sys.argv[1:] if x.isdigit()]
    target = GPUTarget("cuda", numbers[0] if numbers else 80, 32)
    for affine in (False, True):
        for name in KERNELS:
            src = source(name, affine)
            if "--ir" in sys.argv:
                sizes = (
                    len(to_ir(x, target).splitlines()) for x in (src, source(name, affine, True))
                )
                result = "{} lines, {} for sizes of 1".format(*sizes)
            else:
                compiled = triton.compile(src, target=target, options=OPTIONS)
                result = usage(compiled.asm["cubin"])
            print(f"{'Aff(2)' if affine else 'rigid':8}{name:18}{result}", flush=True)


if __name__ == "__main__":
    main()
