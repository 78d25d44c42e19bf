"""A report as one HTML page that needs nothing else: no script, no network, figures inside."""

from __future__ import annotations

import re
from base64 import b64encode
from html import escape

from .document import Figure, Section, Table

STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5b6575; --line: #d9dee6; --page: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ee; --soft: #9aa5b5; --line: #3a4352; --page: #161b22; }
}
p { max-width: 52rem; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 70rem; margin: 0 auto; padding: 2rem 1.2rem 5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; } h2 { margin-top: 3rem; } h3 { margin-top: 2.2rem; }
nav { color: var(--soft); margin: 1rem 0 2rem; } nav a { margin-right: 1rem; }
a { color: #0b6fb8; } @media (prefers-color-scheme: dark) { a { color: #6cb6ff; } }
code { font: 0.92em ui-monospace, monospace; background: color-mix(in srgb, var(--ink) 8%, #0000);
  padding: 0.1em 0.3em; border-radius: 3px; white-space: nowrap; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0;
  font-size: 0.9rem; }
th, td { padding: 0.35rem 0.55rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { border-bottom: 2px solid var(--line); font-weight: 600; white-space: normal;
  vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; font-weight: 600; }
figure { margin: 1.4rem 0; } figure img { max-width: 100%; background: #fff; border-radius: 4px; }
figcaption { color: var(--soft); font-size: 0.92rem; }
"""


def render(section: Section) -> str:
    """The page of a report."""
    chapters = [part for part in section.parts if isinstance(part, Section)]
    links = "".join(f'<a href="#{_anchor(c.title)}">{escape(c.title)}</a>' for c in chapters)
    body = _section(section, 1, nav=f"<nav>{links}</nav>")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(section.title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )


def _section(section: Section, depth: int, nav: str = "") -> str:
    anchor = _anchor(section.title)
    parts = [f'<h{depth} id="{anchor}">{escape(section.title)}</h{depth}>\n', nav]
    for part in section.parts:
        if isinstance(part, Section):
            parts.append(_section(part, depth + 1))
        elif isinstance(part, Table):
            parts.append(_table(part))
        elif isinstance(part, Figure):
            parts.append(_figure(part))
        else:
            parts.append(f"<p>{_inline(part)}</p>\n")
    return "".join(parts)


def _table(table: Table) -> str:
    head = "".join(f"<th>{_inline(cell)}</th>" for cell in table.header)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_inline(cell)}</td>" for cell in row) + "</tr>\n"
        for row in table.rows
    )
    table_html = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>"
    return f'<div class="scroll">{table_html}</div>\n'


def _figure(figure: Figure) -> str:
    data = b64encode(figure.svg).decode()
    caption = escape(figure.caption)
    return (
        f'<figure><img alt="{caption}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>\n"
    )


def _inline(text: str) -> str:
    """Text with `code` and **weight**, the only marks that reports use."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
