"""Put the results of a folder of runs into the docs: `python tools/publish_results.py runs/full`.

Writes docs/experiments/ (results.json, timing.json, README.md and its figures) and the table of the
front page. Without a folder the pages are written anew from the results that are there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from lieattn._core.folders import write_json
from lieattn.lab.paper.protocols import MODELS
from lieattn.lab.paper.reproduce import RESULTS, collect, sessions
from lieattn.lab.paper.storage import TIMING
from lieattn.lab.report import content, markdown
from lieattn.lab.report.document import Section, Table
from lieattn.lab.report.summary import ORDER, Comparison, Row, comparisons, times

ROOT = Path(__file__).parents[1]
DOCS, FRONT = ROOT / "docs" / "experiments", ROOT / "README.md"
MARKS = ("<!-- results -->", "<!-- end of results -->")
NOTE = (
    f"The numbers are in [{RESULTS}]({RESULTS}). `lieattn reproduce --full --group all` and "
    "`lieattn reproduce --full --protocol improved`, with `--group` for others than the paper's, "
    "compute them; `python tools/publish_results.py runs/full` generates this page."
)


def main() -> None:
    DOCS.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) > 1:
        found = collect(Path(sys.argv[1]))
        timing = sessions(Path(sys.argv[1]), found)
        if not {f"paper/{group}/{model}" for group in ORDER for model in MODELS} <= found[
            "configurations"
        ].keys() or any(r["settings"]["epochs"] < 200 for r in found["configurations"].values()):
            sys.exit(f"{sys.argv[1]} does not hold full runs of all groups and models.")
        write_json(DOCS / RESULTS, found, indent=None)
        write_json(DOCS / TIMING, timing)
    markdown.write_figures(document(), DOCS)
    (DOCS / "README.md").write_text(page(), encoding="utf-8")
    FRONT.write_text(with_table(FRONT.read_text(encoding="utf-8")), encoding="utf-8")


def published(name: str) -> Any:
    return json.loads((DOCS / name).read_text(encoding="utf-8"))


def document() -> Section:
    """The report of the published results, with a word on where they come from."""
    report = content.build(published(RESULTS), published(TIMING))
    return Section(report.title, [*report.parts[:2], NOTE, *report.parts[2:]])


def page() -> str:
    """docs/experiments/README.md."""
    return markdown.render(document())


def with_table(front: str) -> str:
    """The front page with its table of the paper's protocol."""
    return markdown.between(front, MARKS, front_table(published(RESULTS)))


def front_table(found: dict[str, Any]) -> str:
    """Ours beside the paper's figures, for the groups that the paper has."""
    header = "group, model, pose error, paper, over G, paper, flanking, paper, equivariance, paper"
    rows = [
        _row(comparison, row)
        for comparison in comparisons(found)["paper"]
        for row in comparison.rows.values()
        if row.printed
    ]
    return markdown.table(Table(header.split(", "), rows))


def _row(comparison: Comparison, row: Row) -> list[str]:
    ratios = (comparison.ratio(row.model), comparison.printed_ratio(row.model))
    return [
        comparison.title if row.model == "G" else "",
        row.model,
        row.number("best", "pose_error").short(),
        row.paper("pose_error"),
        *(times(ratio) if row.model != "G" else "" for ratio in ratios),
        row.number("best", "flanking").short(".3f"),
        row.paper("flanking", ".3f"),
        row.equivariance.short(".0e"),
        row.paper("equivariance", ".0e"),
    ]


if __name__ == "__main__":
    main()
