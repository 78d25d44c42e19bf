"""Lines of code of the package: lines that hold a token of code. No comments, no docstrings.

`python tools/size.py [FOLDER]` prints the lines of every room and their sum. Another folder, such
as `old/src/lieattn` of an earlier commit, is for comparison.
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


def lines_of_code(text: str) -> int:
    """Lines with code, as `tokenize` sees them."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            found -= set(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
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


if __name__ == "__main__":
    main()
