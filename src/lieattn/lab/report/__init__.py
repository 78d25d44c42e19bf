"""Reports of a folder of results: `report.html`, `report.md` and its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..._core.folders import write_bytes, writing
from . import content, html, markdown
from .document import Section


def write_report(found: dict[str, Any], timing: list[dict[str, Any]], out: Path) -> dict[str, Path]:
    """Write both pages; paths by what they are."""
    return write_pages(content.build(found, timing), out)


def write_pages(document: Section, out: Path) -> dict[str, Path]:
    """A document as both pages, with its figures as files."""
    folder = out / markdown.FIGURES
    with writing(folder):
        folder.mkdir(exist_ok=True)
    for figure in document.figures():
        write_bytes(folder / f"{figure.name}.svg", figure.svg)
    pages = {"Report": out / "report.html", "Markdown": out / "report.md"}
    write_bytes(pages["Report"], html.render(document).encode())
    write_bytes(pages["Markdown"], markdown.render(document).encode())
    return pages
