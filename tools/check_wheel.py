"""Is a wheel fit for release: for every Python, with the whole kernel, with no library of others?

python tools/check_wheel.py dist/*.whl
"""

import re
import sys
import zipfile
from pathlib import Path

NAME = re.compile(r"lieattn-[^-]+-py3-none-manylinux_2_\d+_(?P<machine>\w+)\.whl")
BUILDS = {"x86_64": {"_avx512.so", "_avx2.so", "_baseline.so"}}


def faults(wheel: Path) -> list[str]:
    """What is wrong, a sentence each."""
    name = NAME.fullmatch(wheel.name)
    if name is None:
        return ["its name is not lieattn-VERSION-py3-none-manylinux_2_NN_MACHINE.whl"]
    expected = BUILDS.get(name["machine"], {"_baseline.so"})
    paths = [Path(path) for path in zipfile.ZipFile(wheel).namelist()]
    folder = Path("lieattn/ops/native")
    found = {path.name for path in paths if path.parent == folder and path.suffix == ".so"}
    found_elsewhere = [str(p) for p in paths if ".so" in p.suffixes and p.parent != folder]
    said = []
    if found != expected:
        said.append(f"it has {sorted(found)}, expected {sorted(expected)}: is there a compiler?")
    if found_elsewhere:
        said.append(f"it has libraries of others: {found_elsewhere}")
    return said


def main() -> None:
    wheels = [Path(path) for path in sys.argv[1:]]
    if not wheels:
        sys.exit("there is no wheel to check.")
    said = [f"{wheel}: {fault}" for wheel in wheels for fault in faults(wheel)]
    if said:
        sys.exit("\n".join(said))
    for wheel in wheels:
        print(f"{wheel}: whole")


if __name__ == "__main__":
    main()
