"""XML as a stream of elements with their places; nothing is fetched, nothing blown up.

Python's own parser, as lxml and defusedxml tell no column. Entities are what makes XML dangerous:
only short ones that refer to no other and to no file are allowed, as drawing programs write them.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import NamedTuple
from xml.parsers import expat

from .._core.text import quoted
from ._source import Source, one_line_end
from .errors import DataError

_LONGEST_ENTITY = 256  # characters; those of Illustrator are addresses of namespaces
_GROWTH = 1_000_000  # characters that entities may add to a file
_BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_TAG = 65536  # bytes of a tag in which attributes are looked for


class Element(NamedTuple):
    """An element as it begins. Its name is without its namespace's prefix.

    Attributes keep theirs: `inkscape:transform` is none of SVG's.
    """

    name: str
    attributes: dict[str, str]
    line: int
    column: int
    offset: int  # of its first byte in the file
    prefix: str = ""  # of its namespace


def walk(source: Source, start: Callable[[Element], None], end: Callable[[str], None]) -> None:
    """Call `start` and `end` for every element of the file, in its order."""
    parser = expat.ParserCreate()
    parser.specified_attributes = True  # none that a DTD would add
    parser.buffer_text = True

    def place() -> tuple[int, int]:
        return _seen(source, parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)

    def started(name: str, attributes: dict[str, str]) -> None:
        prefix, _, local = name.rpartition(":")
        start(Element(local, attributes, *place(), parser.CurrentByteIndex, prefix))

    source.require_few(len(source.data), "bytes of XML", 2)
    source.require_few(source.data.count(b"<"), "elements")
    source.require_few(source.data.count(b"="), "attributes")
    references = source.data.count(b"&") - source.data.count(b"&#")

    def entity(
        name: str,
        parameter: bool,
        value: str | None,
        base: str | None,
        system: str | None,
        public: str | None,
        notation: str | None,
    ) -> None:
        short = value is not None and len(value) <= _LONGEST_ENTITY
        if parameter or not short or "&" in str(value) or "%" in str(value):
            raise source.error(
                f"the entity {quoted(name)} is declared by a file, by other entities or at "
                "length, which is how XML is made to read files and to fill memory. Remove it "
                "from the DOCTYPE, or save the file anew without entities.",
                *place(),
            )
        # All references might be to this one: an upper bound that needs no second parser.
        if len(str(value)) * references > len(source.data) + _GROWTH:
            raise source.error(
                f"the entity {quoted(name)} of {len(str(value))} characters with {references} "
                "references to entities could make far more of the file than it is, which is how "
                "XML is made to fill memory. Save the file anew without entities.",
                *place(),
            )

    def declared(version: str, encoding: str | None, standalone: int) -> None:
        if not _like_ascii(encoding or "utf-8"):  # "<" and "&" are counted in bytes
            problem = f"its encoding {quoted(str(encoding))} is not read. Save the file as UTF-8."
            raise source.error(problem, 1)

    parser.XmlDeclHandler = declared
    parser.StartElementHandler = started
    parser.EndElementHandler = lambda name: end(name.rpartition(":")[2])
    parser.EntityDeclHandler = entity
    try:
        parser.Parse(source.data, True)
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code) or str(error)
        ended = what in ("no element found", "unclosed token")
        hint = " The file may have been cut short here." if ended else ""
        problem = f"is no well-formed XML: {what}.{hint}"
        raise source.error(problem, *_seen(source, error.lineno, error.offset + 1)) from None
    except (LookupError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise source.error(f"is no well-formed XML: {error}.", 1) from None


def _like_ascii(encoding: str) -> bool:
    """Whether characters of ASCII are themselves in an encoding, or in UTF-16 with a zero byte."""
    if encoding.lower().startswith("utf-16"):
        return True
    try:
        return bytes(range(128)).decode(encoding).encode() == bytes(range(128))
    except (LookupError, ValueError):
        return False


def attribute_place(
    source: Source, element: Element, name: str, offset: int = 0
) -> tuple[int, int]:
    """Line and column of a character of an attribute's value; those of the element if unsure."""
    raw = source.data[element.offset : element.offset + _TAG]
    tag = one_line_end(raw.decode("utf-8", errors="replace"))
    found = re.search(rf"\s{re.escape(name)}\s*=\s*[\"']", tag)
    if found is None or not tag.startswith("<"):
        return element.line, element.column
    before = tag[: found.end() + offset]
    lines = before.count("\n")
    if lines:
        return element.line + lines, len(before) - before.rfind("\n")
    return element.line, element.column + len(before)


def _seen(source: Source, line: int, column: int) -> tuple[int, int]:
    """The place as editors count it: expat takes a byte order mark for a column."""
    return line, max(1, column - (line == 1 and source.data.startswith(_BOMS)))
