"""What the polar chart gains on real sets, with less and less beside attention.

    python benchmarks/polar_chart.py [--jobs 2] [--steps N] [--write]

Models of `lieattn realdata` on Aff(2) and Aff(3) are trained again without analogies, and with
corrections alone. Runs are kept in runs/charts, and gone on with. `--write` makes
docs/real-data/charts.md of them.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console

from lieattn._core.errors import RunError
from lieattn.groups import get_group
from lieattn.lab.realdata.affine import gains
from lieattn.lab.realdata.plan import Run, plan
from lieattn.lab.realdata.results import rows_of
from lieattn.lab.realdata.run import RESULTS, realdata
from lieattn.lab.report import markdown
from lieattn.lab.report.document import Table
from lieattn.workflows.tables import spread

DOCS = Path(__file__).parents[1] / "docs" / "real-data"
GROUPS, MODELS, SEEDS = ("Aff2", "Aff3"), ("A told", "G", "G polar"), 3
COMMAND = "python benchmarks/polar_chart.py --write"
# What is left out of the models of the table, by name of the study.
STUDIES: dict[str, dict[str, Any]] = {
    "no analogies": {"analogies": False},
    "corrections alone": {"analogies": False, "copies": False},
}

PAGE = """\
# What the polar chart gains, with less beside attention

{table}

Mean errors of hidden test poses over those of geodesic interpolation, as on [the page of real
data](README.md), ± over {seeds} seeds; and least validation losses, means over seeds. **Gain**: how
much smaller the error of G polar is than that of G. The three models differ in how tokens attend
to each other, in nothing else: **A told** sees no relations of pairs at all. **No analogies**:
answers are corrections or copies. **Corrections alone**: no copies either.

By validation losses the polar chart is ahead in {ahead} of {rows} rows.

Made by `{command}`.
"""


def runs_of(study: str, steps: int | None, out: Path) -> list[Run]:
    """Runs of all groups and models."""
    kept = [run for run in plan(GROUPS, SEEDS, steps, out) if run.model in MODELS]
    return [replace(run, settings=replace(run.settings, **STUDIES[study])) for run in kept]


def table(found: dict[str, dict[str, Any]]) -> Table:
    """Errors of all studies, test part, over those of interpolation."""
    rows = []
    for group in GROUPS:
        for study, results in found.items():
            own = rows_of(results, group)
            errors = {name: [x.over for x in own[name]] for name in MODELS}
            cells = [spread(errors[name]) for name in MODELS]
            valid = [f"{mean(x.valid for x in own[name]):.3f}" for name in MODELS]
            rows.append(
                [
                    f"{get_group(group)}, {study}",
                    *cells,
                    f"{spread(gains(results, group))}%",
                    *valid,
                ]
            )
    return Table(["", *MODELS, "gain", *(f"{name}, validation" for name in MODELS)], rows)


def ahead(found: dict[str, dict[str, Any]]) -> list[bool]:
    """In which rows the validation loss of the polar chart is the smaller one."""
    losses = [
        [mean(x.valid for x in rows_of(results, group)[name]) for name in ("G polar", "G")]
        for group in GROUPS
        for results in found.values()
    ]
    return [polar < principal for polar, principal in losses]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--steps", type=int, help="of every run; those of the table")
    parser.add_argument("--out", type=Path, default=Path("runs/charts"))
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    found = {"as in the table": json.loads((DOCS / RESULTS).read_text(encoding="utf-8"))}
    for study in STUDIES:
        out = args.out / study.replace(", ", "-").replace(" ", "-")
        try:
            realdata(
                runs_of(study, args.steps, out),
                out,
                Console(),
                jobs=args.jobs,
                overwrite=False,
                command=COMMAND,
            )
        except RunError as error:
            sys.exit(f"polar_chart: {error}")
        found[study] = json.loads((out / RESULTS).read_text(encoding="utf-8"))
    text = markdown.table(table(found))
    print(text)
    if args.write:
        won = ahead(found)
        page = PAGE.format(table=text, seeds=SEEDS, command=COMMAND, ahead=sum(won), rows=len(won))
        (DOCS / "charts.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
