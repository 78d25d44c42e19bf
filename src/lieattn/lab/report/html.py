"""Markdown of a report as one HTML page that needs nothing else: no script, no network."""

from __future__ import annotations

import re
from base64 import b64encode

from markdown_it import MarkdownIt

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
th, td { padding: 0.35rem 0.55rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { border-bottom: 2px solid var(--line); font-weight: 600; white-space: normal;
  vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; font-weight: 600; }
figure { margin: 1.4rem 0; } figure img { max-width: 100%; background: #fff; border-radius: 4px; }
figcaption { color: var(--soft); font-size: 0.92rem; }
"""


PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}</main>
</body>
</html>
"""
_HEADING = re.compile(r"<h(\d)>(.*?)</h\d>")
_FIGURE = re.compile(r'<p><img src="([^"]*)" alt="([^"]*)" /></p>\n<p><em>(.*?)</em></p>')


def render(text: str, figures: dict[str, bytes]) -> str:
    """The page of a report in Markdown; `figures` holds the SVG files that it links to."""

    def figure(found: re.Match[str]) -> str:
        data = b64encode(figures[found[1]]).decode()
        image = f'<img alt="{found[2]}" src="data:image/svg+xml;base64,{data}">'
        return f"<figure>{image}<figcaption>{found[3]}</figcaption></figure>"

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    headings = _HEADING.findall(body)
    links = "".join(f'<a href="#{_anchor(name)}">{name}</a>' for n, name in headings if n == "2")
    body = _HEADING.sub(lambda x: f'<h{x[1]} id="{_anchor(x[2])}">{x[2]}</h{x[1]}>', body)
    body = body.replace("</h1>\n", f"</h1>\n<nav>{links}</nav>\n", 1)
    body = body.replace("<table>", '<div class="scroll"><table>')
    body = _FIGURE.sub(figure, body.replace("</table>", "</table></div>"))
    return PAGE.format(title=headings[0][1], style=STYLE, body=body)


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
