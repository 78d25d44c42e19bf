"""Put the results of `lieattn realdata` into the docs.

    python tools/publish_realdata.py runs/realdata

Writes docs/real-data/ (results.json, README.md and its figures) and the table of docs/training.md.
Without a folder the pages are written anew from the results that are there.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from lieattn.lab.realdata.plan import RECIPES, published_models
from lieattn.lab.realdata.report import build, front_note, glance_table
from lieattn.lab.realdata.run import RESULTS
from lieattn.lab.report import markdown
from lieattn.lab.report.document import Section

ROOT = Path(__file__).parents[1]
MARKS = ("<!-- realdata -->", "<!-- end of realdata -->")
NOTE = (
    f"The numbers are in [{RESULTS}]({RESULTS}); `python tools/publish_realdata.py runs/realdata` "
    "generates this page. The data: [data.md](../data.md); training on poses of your own: "
    "[training.md](../training.md); the gain of the polar chart with fewer other features: "
    "[charts.md](charts.md)."
)
REPORT = "The report: [docs/real-data](real-data/README.md)."


def publish(folder: Path | None, root: Path = ROOT) -> None:
    docs = root / "docs" / "real-data"
    docs.mkdir(parents=True, exist_ok=True)
    if folder is not None:
        require_whole(json.loads((folder / RESULTS).read_text(encoding="utf-8")), folder)
        shutil.copyfile(folder / RESULTS, docs / RESULTS)
    found = json.loads((docs / RESULTS).read_text(encoding="utf-8"))
    markdown.write_figures(build(found), docs)
    (docs / "README.md").write_text(page(found), encoding="utf-8")
    short = root / "docs" / "training.md"
    short.write_text(with_table(short.read_text(encoding="utf-8"), found), encoding="utf-8")


def require_whole(found: dict[str, Any], folder: Path) -> None:
    """Require all groups, models and three seeds, with the planned number of steps."""
    there = {(r["group"], r["model"], r["seed"], r["settings"]["steps"]) for r in found["runs"]}
    wanted = {
        (group, model, seed, recipe.steps)
        for group, recipe in RECIPES.items()
        for model in published_models(group)
        for seed in range(3)
    }
    if not wanted <= there:
        sys.exit(f"{folder} does not hold the whole table: {len(there & wanted)} of {len(wanted)}.")


def page(found: dict[str, Any]) -> str:
    """docs/real-data/README.md."""
    whole = build(found)
    return markdown.render(Section(whole.title, [whole.parts[0], NOTE, *whole.parts[1:]]))


def with_table(text: str, found: dict[str, Any]) -> str:
    """docs/training.md with its table between the marks."""
    table = f"{markdown.table(glance_table(found))}\n\n{front_note(found)} {REPORT}"
    return markdown.between(text, MARKS, table)


if __name__ == "__main__":
    publish(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
