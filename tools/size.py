"""Lines of code of the package: lines that hold a token of code. No comments, no docstrings.

`python tools/size.py [FOLDER]` prints the lines of every room and their sum, and how many of them
are public functions that commit f10755a had not. Another folder, such as `old/src/lieattn` of an
earlier commit, is for comparison.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# Public functions that commit f10755a had not, with the private helpers that only they use: names
# in a file, or the whole file.
NEW: dict[str, tuple[str, ...]] = {
    "_core/small.py": ("block_diagonal",),
    "groups/_actions.py": (),
    "groups/_affine_charts.py": ("left_jacobian", "right_jacobian"),
    "groups/_calculus.py": (),
    "groups/_charts.py": ("left_jacobian", "right_jacobian"),
    "groups/_expm.py": ("left_jacobian",),
    "groups/_jacobians.py": (),
    "groups/_means.py": (),
    "groups/_rigid.py": ("_to_local",),
    "groups/_scipy.py": (),
    "groups/_semidirect.py": ("_to_local",),
    "groups/generic.py": ("_settle",),
    "groups/products.py": (),
    "groups/rotations.py": ("from_columns",),
    "groups/se3.py": (
        *("from_6d", "to_6d", "from_dual_quaternion", "to_dual_quaternion"),
        *("from_scipy", "to_scipy", "opencv_to_opengl", "opengl_to_opencv"),
    ),
    "groups/so3.py": ("from_6d", "to_6d", "from_scipy", "to_scipy"),
    "groups/translations.py": (),
}


def lines_of_code(text: str, names: tuple[str, ...] = ()) -> int:
    """Lines with code, as `tokenize` sees them: of functions of some names, or of all the text."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            found -= set(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    if names:
        found &= {
            line
            for node in ast.walk(ast.parse(text))
            if isinstance(node, DOCUMENTED[1:]) and node.name in names
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
    return len(found)


def main() -> None:
    home = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "src" / "lieattn"
    rooms: Counter[str] = Counter()
    for path in sorted(home.rglob("*.py")):
        place = path.relative_to(home)
        rooms[place.parts[0]] += lines_of_code(path.read_text(encoding="utf-8"))
    for room, lines in sorted(rooms.items()):
        print(f"{room:20}{lines:7,}")
    print(f"{'in all':20}{rooms.total():7,}")
    texts = {home / path: names for path, names in NEW.items() if (home / path).exists()}
    new = sum(lines_of_code(path.read_text("utf-8"), names) for path, names in texts.items())
    if new:
        print(f"of which {new:,} lines are public functions that commit f10755a had not")


if __name__ == "__main__":
    main()
