"""Reports of a folder of results: `report.md` with figures, and the same as `report.html`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..._core.folders import write_bytes, writing
from . import content, html, markdown
from .document import Section


def write_report(found: dict[str, Any], timing: list[dict[str, Any]], out: Path) -> dict[str, Path]:
    """Write the report of the paper's experiments; the paths of both pages."""
    return write_pages(content.build(found, timing), out)


def write_pages(document: Section, out: Path) -> dict[str, Path]:
    """Write a document in Markdown, its figures as files, and the page in HTML."""
    text, figures = markdown.render(document), markdown.files(document)
    with writing(out / markdown.FIGURES):
        (out / markdown.FIGURES).mkdir(exist_ok=True)
    for name, svg in figures.items():
        write_bytes(out / name, svg)
    pages = {"Report": out / "report.html", "Markdown": out / "report.md"}
    write_bytes(pages["Report"], html.render(text, figures).encode())
    write_bytes(pages["Markdown"], text.encode())
    return pages
