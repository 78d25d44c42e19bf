"""Put the results of a folder of runs into the docs: `python tools/publish_results.py runs/full`.

Writes docs/experiments/ (results.json, timing.json, README.md and its figures) and the table of the
front page. Without a folder the pages are written anew from the results that are there.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from lieattn.lab.report import content, markdown
from lieattn.lab.report.document import Table
from lieattn.lab.report.summary import comparisons
from lieattn.lab.reproduce import RESULTS, TIMING, collect
from lieattn.lab.storage import write_json

ROOT = Path(__file__).parents[1]
DOCS, FRONT = ROOT / "docs" / "experiments", ROOT / "README.md"
MARKS = ("<!-- results -->", "<!-- end of results -->")
COMMAND = "lieattn reproduce --full --group all --protocol all"


def main() -> None:
    DOCS.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) > 1:
        runs = Path(sys.argv[1])
        write_json(DOCS / RESULTS, collect(runs))
        shutil.copy(runs / TIMING, DOCS / TIMING)
    found, timing = (json.loads((DOCS / name).read_text()) for name in (RESULTS, TIMING))
    document = content.build(found, timing)
    note = (
        f"The numbers are in [{RESULTS}]({RESULTS}); `{COMMAND}` makes them, and "
        "`python tools/publish_results.py runs/full` this page."
    )
    document.parts.insert(2, note)
    figures = DOCS / markdown.FIGURES
    shutil.rmtree(figures, ignore_errors=True)
    figures.mkdir()
    for figure in document.figures():
        (figures / f"{figure.name}.svg").write_bytes(figure.svg)
    (DOCS / "README.md").write_text(markdown.render(document))
    text = FRONT.read_text()
    start, end = text.index(MARKS[0]) + len(MARKS[0]), text.index(MARKS[1])
    FRONT.write_text(text[:start] + "\n" + front_table(found) + "\n" + text[end:])


def front_table(found: dict[str, Any]) -> str:
    """The table of the front page: the paper's protocol, ours beside the paper's figures."""
    header = [
        "group",
        "model",
        "pose error",
        "paper",
        "over G",
        "paper",
        "flanking",
        "paper",
        "equivariance",
        "paper",
    ]
    rows = [
        [
            comparison.title if model == "G" else "",
            model,
            f"{row.number('best', 'pose_error').mean:.1e}",
            f"{row.printed.pose_error:.1e}" if row.printed else "",
            f"{comparison.ratio(model) or 0:.2g}",
            f"{comparison.printed_ratio(model) or 0:.2g}" if row.printed else "",
            f"{row.number('best', 'flanking').mean:.3f}",
            f"{row.printed.flanking:.3f}" if row.printed else "",
            f"{row.equivariance:.0e}",
            f"{row.printed.equivariance:.0e}" if row.printed else "",
        ]
        for comparison in comparisons(found)["paper"]
        for model, row in comparison.rows.items()
    ]
    return markdown.table(Table(header, rows))


if __name__ == "__main__":
    main()
