"""Do all files that name the version agree, and has the changelog its date?

python tools/check_release.py 1.2.3
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACES = {
    "src/lieattn/_version.py": r'__version__ = "{version}"',
    "CITATION.cff": r"version: {version}",
    "CHANGELOG.md": r"## {version} \(\d{{4}}-\d\d-\d\d\)",
}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: make release-check VERSION=1.2.3")
    version = re.escape(sys.argv[1])
    said = []
    for place, line in PLACES.items():
        pattern = line.format(version=version)
        if not re.search(rf"^{pattern}$", (ROOT / place).read_text("utf-8"), re.MULTILINE):
            said.append(f"{place} has no line {pattern}")
    if said:
        sys.exit("\n".join(said))
    print(f"{sys.argv[1]}: ready to be tagged")


if __name__ == "__main__":
    main()
