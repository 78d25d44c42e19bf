"""Put the results of `lieattn bench` into the docs: `python tools/publish_bench.py runs/bench`.

Writes docs/benchmarks/ (bench.json, README.md and its figures) and the small table of
docs/performance.md. Without a folder the pages are written anew from the results that are there.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from lieattn.lab.bench.page import document, front_note, front_table
from lieattn.lab.bench.run import RESULTS
from lieattn.lab.report import markdown
from lieattn.lab.report.document import Section

ROOT = Path(__file__).parents[1]
MARKS = ("<!-- bench -->", "<!-- end of bench -->")
NOTE = (
    f"The numbers are in [{RESULTS}]({RESULTS}); `python tools/publish_bench.py runs/bench` makes "
    "this page. Logarithms alone, against kornia, pypose, jaxlie and scipy: "
    "[lie_ops.md](lie_ops.md)."
)


def publish(folder: Path | None, root: Path = ROOT) -> None:
    docs = root / "docs" / "benchmarks"
    docs.mkdir(parents=True, exist_ok=True)
    if folder is not None:
        if not json.loads((folder / RESULTS).read_text(encoding="utf-8"))["complete"]:
            sys.exit(f"{folder} holds a bench that was stopped before its end.")
        shutil.copyfile(folder / RESULTS, docs / RESULTS)
    found = json.loads((docs / RESULTS).read_text(encoding="utf-8"))
    markdown.write_figures(document(found), docs)
    (docs / "README.md").write_text(page(found), encoding="utf-8")
    short = root / "docs" / "performance.md"
    short.write_text(with_table(short.read_text(encoding="utf-8"), found), encoding="utf-8")


def page(found: dict[str, Any]) -> str:
    """docs/benchmarks/README.md."""
    whole = document(found)
    return markdown.render(Section(whole.title, [*whole.parts[:2], NOTE, *whole.parts[2:]]))


def with_table(text: str, found: dict[str, Any]) -> str:
    """docs/performance.md with its table between the marks."""
    table = f"{markdown.table(front_table(found))}\n\n{front_note(found)}"
    return markdown.between(text, MARKS, table)


if __name__ == "__main__":
    publish(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
