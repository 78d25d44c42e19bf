"""Reports of a folder of results: terminal tables, Markdown, HTML."""
from pathlib import Path
from typing import Any
def write_report(found: dict[str, Any], timing: Any, out: Path) -> dict[str, Path]:
    return {"Results": out / "results.json"}
