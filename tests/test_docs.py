"""The documentation names files, links and modules that exist."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
# Paths in text and code: with a folder, and an ending that files of this repository have.
PATH = re.compile(r"(?<![\w./~-])(?:[\w.-]+/)+[\w.-]*\.(?:cff|cpp|h|json|md|py|svg|toml|txt)\b")
FOLDER = re.compile(r"`((?:benchmarks|docs|examples|native|src|tests|tools)/[\w./-]*)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
MODULE = re.compile(r"(?<![\w./-])lieattn(?:\.[A-Za-z_]\w*)+")
WRITTEN = ("runs/",)  # by commands of the examples


def heading_anchors(page: Path) -> set[str]:
    """Anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", x.lower()).replace(" ", "-") for x in headings}


def missing_paths(page: Path, text: str) -> list[str]:
    """Paths in a text that exist neither in the repository nor beside the page."""
    named = {*PATH.findall(text), *FOLDER.findall(text)}
    return sorted(
        path
        for path in named
        if not path.startswith(WRITTEN)
        and not (ROOT / path).exists()
        and not (page.parent / path).exists()
    )


def dead_links(page: Path, text: str) -> list[str]:
    """Relative links in a text whose file or heading does not exist."""
    dead = []
    for link in LINK.findall(text):
        parts = urlsplit(link)
        if parts.scheme:
            continue
        target = page.parent / parts.path if parts.path else page
        known = target.exists()
        if known and parts.fragment:
            known = parts.fragment in heading_anchors(target)
        if not known:
            dead.append(link)
    return dead


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_in_the_documentation_exist(page: Path) -> None:
    assert missing_paths(page, page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_in_the_documentation_lead_somewhere(page: Path) -> None:
    assert dead_links(page, page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_in_the_documentation_exist(page: Path) -> None:
    for name in MODULE.findall(page.read_text(encoding="utf-8")):
        assert pkgutil.resolve_name(name) is not None


def test_the_map_of_contributing_names_every_package() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    package = ROOT / "src" / "lieattn"
    rooms = [f"{x.name}/" for x in package.iterdir() if (x / "__init__.py").exists()]
    modules = [x.name for x in package.glob("*.py") if not x.name.startswith("_")]
    assert [name for name in (*rooms, *modules) if f"`{name}`" not in text] == []


def test_missing_paths_and_dead_links_are_found() -> None:
    page = ROOT / "docs" / "guide.md"
    text = (
        "`src/lieattn/lab/infill/model.py`, `tools/none/`, `runs/a.json`, `src/lieattn/losses.py`, "
        "[x](none.md), [x](data.md), [x](data.md#formats), [x](data.md#none), [x](https://a.b/c)"
    )
    assert missing_paths(page, text) == ["src/lieattn/lab/infill/model.py", "tools/none/"]
    assert dead_links(page, text) == ["none.md", "data.md#none"]
