"""Make docs/reliability.md from what the fault suite counted.

`python tools/reliability.py runs/faults.jsonl` sums the lines of a run up into
docs/reliability.json; without a file the page is written anew from the numbers that are there.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "reliability.json"
PAGE = ROOT / "docs" / "reliability.md"
MARKS = ("<!-- promises -->", "<!-- end of promises -->")


def machine() -> str:
    """The processor's vectors, cores and versions, without a name of the machine."""
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    vectors = next((v for v in ("avx512f", "avx2") if v in flags), platform.machine())
    return (
        f"{platform.system()} {platform.machine()} ({vectors}), {torch.get_num_threads()} cores, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )


def summed(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """One row for each promise and way to try it, in the order of the tests."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        row = rows.setdefault(
            (line["promise"], line["how"]),
            {
                "promise": line["promise"],
                "how": line["how"],
                "tries": 0,
                "failures": 0,
                "level": line["level"],
                "notes": {},
            },
        )
        row["tries"] += line["tries"]
        row["failures"] += line["failures"]
        for note, number in line["notes"].items():
            row["notes"][note] = row["notes"].get(note, 0) + number
    levels = sorted({line["level"] for line in lines})
    seeds = sorted({line["seed"] for line in lines})
    seconds = round(sum(line["seconds"] for line in lines))
    return {
        "level": " and ".join(levels),
        "seed": seeds[0] if len(seeds) == 1 else seeds,
        "machine": machine(),
        "seconds": seconds,
        "promises": sorted(rows.values(), key=lambda row: (row["promise"], row["how"])),
    }


def table(found: dict[str, Any]) -> str:
    """Promises, how they are tried, and how often they failed."""
    rows = ["| promise | how it is tried | tries | failures |", "|---|---|--:|--:|"]
    for row in found["promises"]:
        notes = "; ".join(f"{number:,} {note}" for note, number in row["notes"].items())
        how = row["how"] + (f" ({notes})" if notes else "")
        rows.append(f"| {row['promise']} | {how} | {row['tries']:,} | {row['failures']:,} |")
    tries = sum(row["tries"] for row in found["promises"])
    failures = sum(row["failures"] for row in found["promises"])
    few = [row["promise"] for row in found["promises"] if row["level"] != "long"]
    if few and len(few) < len(found["promises"]):
        rows.append(
            "\nTried at a lower level than the rest: " + "; ".join(dict.fromkeys(few)) + "."
        )
    rows.append(
        f"\n{tries:,} tries, {failures:,} failures. Level {found['level']}, seed {found['seed']}, "
        f"{found['seconds'] // 60} minutes of work on {found['machine']}."
    )
    return "\n".join(rows)


def publish(log: Path | None) -> None:
    """Sum a log up, and write the page anew."""
    if log is not None:
        lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        RESULTS.write_text(json.dumps(summed(lines), indent=1) + "\n", encoding="utf-8")
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    text = f"{before}{MARKS[0]}\n{table(found)}\n{MARKS[1]}{after}"
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    publish(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
