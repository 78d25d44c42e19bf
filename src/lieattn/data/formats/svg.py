"""SVG drawings: the frame of every element that has a transform, ancestors composed.

A gradient's or a pattern's transform, its own or inherited by href, is a frame too, in the user
space of what it fills; gradients in units of bounding boxes have no frame of their own and are
left out.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import NamedTuple

import torch

from ..._core.text import quoted
from ...groups import Aff2
from .._draft import Draft, Place
from .._source import Source, stem
from .._xml import Element, attribute_place, walk
from .format import Format

# Rows (a, c, e) and (b, d, f) of the matrix, as the six numbers a b c d e f of the standard.
Matrix = tuple[float, float, float, float, float, float]
IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_BLANKS = re.compile(r"[\s,]*")
_NAME = re.compile(r"([A-Za-z]+)\s*\(")
_COUNTS = {
    "matrix": (6,),
    "translate": (1, 2),
    "scale": (1, 2),
    "rotate": (1, 3),
    "skewX": (1,),
    "skewY": (1,),
}
_PAINTS = {
    "linearGradient": "gradientTransform",
    "radialGradient": "gradientTransform",
    "pattern": "patternTransform",
}
_USER_SPACE = "userSpaceOnUse"
_LONGEST_CHAIN = 16  # of gradients that refer to each other
_MOST_NUMBERS = 64  # of a transform that has 6 at most
_LONGEST_NAME = 120  # characters of a pose's name, of an id that may be of any length
_LENGTH = re.compile(rf"({_NUMBER.pattern})(?:px)?", re.ASCII | re.IGNORECASE)


class TransformError(ValueError):
    """A transform that cannot be read, and how many characters into it."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem)
        self.offset = offset


def parse_transform(text: str) -> Matrix:
    """The matrix a b c d e f of a transform attribute.

    >>> parse_transform("translate(3 4) scale(2)")
    (2.0, 0.0, 0.0, 2.0, 3.0, 4.0)
    """
    matrix, at = IDENTITY, _after(_BLANKS, text, 0)
    while at < len(text):
        head = _NAME.match(text, at)
        if head is None or head[1] not in _COUNTS:
            word = re.match(r"[^\s(]+", text[at:])
            found = quoted(word[0]) if word else quoted(text[at : at + 8])
            raise TransformError(f"{found} is no transform; expected {', '.join(_COUNTS)}", at)
        numbers, end = _arguments(text, head.end())
        if len(numbers) not in _COUNTS[head[1]]:
            counts = " or ".join(str(n) for n in _COUNTS[head[1]])
            problem = f"{head[1]} has {len(numbers)} numbers, expected {counts}"
            raise TransformError(problem, at)
        matrix = product(matrix, _matrix(head[1], numbers))
        at = _after(_BLANKS, text, end)
    return matrix


def _arguments(text: str, at: int) -> tuple[list[float], int]:
    """Numbers up to the closing bracket, and where it ends."""
    numbers: list[float] = []
    while True:
        at = _after(_BLANKS, text, at)
        if text[at : at + 1] == ")":
            return numbers, at + 1
        found = _NUMBER.match(text, at)
        if found is None:
            what = quoted(text[at : at + 8]) if at < len(text) else "the end"
            raise TransformError(f"{what} where a number or a bracket was expected", at)
        if math.isinf(float(found[0])):
            raise TransformError(f"{quoted(found[0])} is too large for a number", at)
        numbers.append(float(found[0]))
        if len(numbers) > _MOST_NUMBERS:
            raise TransformError(f"more than {_MOST_NUMBERS} numbers in a transform", at)
        at = found.end()


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


def _matrix(name: str, x: list[float]) -> Matrix:
    angle = math.radians(math.fmod(x[0], 360.0))
    if name == "translate":
        return (1.0, 0.0, 0.0, 1.0, x[0], x[1] if len(x) > 1 else 0.0)
    if name == "scale":
        return (x[0], 0.0, 0.0, x[-1], 0.0, 0.0)
    if name == "skewX":
        return (1.0, 0.0, math.tan(angle), 1.0, 0.0, 0.0)
    if name == "skewY":
        return (1.0, math.tan(angle), 0.0, 1.0, 0.0, 0.0)
    if name == "rotate":
        c, s = math.cos(angle), math.sin(angle)
        u, v = x[1:] or (0.0, 0.0)
        return (c, s, -s, c, u - c * u + s * v, v - s * u - c * v)
    a, b, c, d, e, f = x
    return (a, b, c, d, e, f)


def product(p: Matrix, q: Matrix) -> Matrix:
    """The matrix of p after q."""
    a, b, c, d, e, f = p
    return (
        a * q[0] + c * q[1],
        b * q[0] + d * q[1],
        a * q[2] + c * q[3],
        b * q[2] + d * q[3],
        a * q[4] + c * q[5] + e,
        b * q[4] + d * q[5] + f,
    )


def about(matrix: Matrix, x: float, y: float) -> Matrix:
    """The matrix with the point x, y for its origin."""
    return product(product((1.0, 0.0, 0.0, 1.0, x, y), matrix), (1.0, 0.0, 0.0, 1.0, -x, -y))


def _style(element: Element) -> dict[str, str]:
    """The declarations of its style attribute."""
    pieces = (x.partition(":") for x in element.attributes.get("style", "").split(";"))
    return {name.strip().lower(): value.strip() for name, _, value in pieces}


def _origin(element: Element) -> tuple[float, float] | None:
    """Its transform-origin; None if that takes more than the element to know."""
    said = element.attributes | _style(element)
    lengths = [_LENGTH.fullmatch(x) for x in said.get("transform-origin", "0 0").split()]
    if len(lengths) not in (2, 3) or said.get("transform-box", "view-box") != "view-box":
        return None
    x, y = (float(found[1]) if found else math.nan for found in lengths[:2])
    return (x, y) if math.isfinite(x + y) and None not in lengths else None


def _is_shifted(element: Element) -> bool:
    """Whether its x or y is not zero."""
    starts = (_LENGTH.fullmatch(element.attributes.get(name, "0").strip()) for name in ("x", "y"))
    return any(x is None or float(x[1]) != 0 for x in starts)


class _Paint(NamedTuple):
    """A gradient or a pattern. What is None is inherited from the template."""

    matrix: Matrix | None
    units: str | None
    template: str  # another one, as # and its id


class _Drawing:
    """Collects frames while the file is walked."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.stack: list[Matrix] = [IDENTITY]
        self.found: list[tuple[str, Place, Matrix | _Paint]] = []
        self.paints: dict[str, _Paint] = {}
        self.ignored: Counter[str] = Counter()

    def start(self, element: Element) -> None:
        name, has = element.name, element.attributes
        place, inside = (element.line, element.column), len(self.stack) > 1
        if not inside and name != "svg":
            raise self.source.error(f"the first element is <{name[:24]}>, expected <svg>.", *place)
        nested = inside and name == "svg" and ("viewBox" in has or _is_shifted(element))
        self.ignored["<svg> in others with x, y or viewBox"] += nested
        self.ignored["<use> with x or y"] += name == "use" and _is_shifted(element)
        styled = _style(element).get("transform", "none") != "none"
        self.ignored["transforms in style attributes"] += styled
        title = f"{name} {has.get('id', '')}".strip()[:_LONGEST_NAME]
        own = self._read(element, "transform")
        self.stack.append(self.stack[-1] if own is None else product(self.stack[-1], own))
        if own is not None:
            self.found.append((title, place, self.stack[-1]))
        if name in _PAINTS:
            units = _USER_SPACE if name == "pattern" else has.get("gradientUnits")
            template = has.get("href", has.get("xlink:href", "")).strip()
            paint = _Paint(self._read(element, _PAINTS[name]), units, template)
            if has.get("id"):
                self.paints.setdefault("#" + has["id"], paint)
            self.found.append((title, place, paint))

    def end(self, name: str) -> None:
        self.stack.pop()

    def frames(self, notes: list[str]) -> list[tuple[str, Place, Matrix]]:
        """Names and places of elements with their frames, in the order of the file."""
        frames, boxes = list[tuple[str, Place, Matrix]](), 0
        for name, place, frame in self.found:
            matrix, units = (
                self._inherited(frame) if isinstance(frame, _Paint) else (frame, _USER_SPACE)
            )
            if matrix is not None and units == _USER_SPACE:
                frames.append((name, place, matrix))
            boxes += matrix is not None and units != _USER_SPACE
        if boxes:
            notes.append(f"{boxes} gradients in units of bounding boxes are left out.")
        for what, count in self.ignored.items():
            if count:
                notes.append(f"not taken into account, so frames may be off: {what} ({count}).")
        return frames

    def _inherited(self, paint: _Paint) -> tuple[Matrix | None, str | None]:
        """Matrix and units; references may form a ring, so no chain is followed far."""
        matrix, units, template = paint
        for _ in range(_LONGEST_CHAIN):
            other = self.paints.get(template)
            if other is None or None not in (matrix, units):
                break
            matrix = other.matrix if matrix is None else matrix
            units = other.units if units is None else units
            template = other.template
        return matrix, units

    def _read(self, element: Element, attribute: str) -> Matrix | None:
        """The transform in an attribute, about its origin; unknown origins are counted."""
        text = element.attributes.get(attribute)
        if text is None or text.strip() in ("", "none"):
            return None
        try:
            own = parse_transform(text)
        except TransformError as error:
            place = attribute_place(self.source, element, attribute, error.offset)
            problem = f"{error}, in {attribute} of <{element.name[:24]}>."
            raise self.source.error(problem, *place) from None
        if own[:4] == IDENTITY[:4]:  # translations have no origin
            return own
        origin = _origin(element)
        if origin is None:
            what = "transform-origins of other units than px, or with a transform-box"
            self.ignored[what] += 1
            return own
        return about(own, *origin)


def _sniff(head: bytes, text: str) -> bool:
    return re.search(r"<(\w+:)?svg[\s>]", text) is not None


def _read(source: Source, notes: list[str]) -> list[Draft]:
    source.require_few(source.data.count(b"("), "transforms")
    drawing = _Drawing(source)
    walk(source, drawing.start, drawing.end)
    frames = drawing.frames(notes)
    if not frames:
        raise source.error(
            "no element has a transform, so there are no frames. Drawings with all their paths in "
            "one coordinate system hold none."
        )
    names, places, matrices = zip(*frames, strict=True)
    x = torch.tensor(matrices, dtype=torch.float64)
    g = Aff2.identity(len(x), dtype=torch.float64)
    g[:, :2] = x.unflatten(-1, (3, 2)).mT
    return [Draft(Aff2, g, names, places, stem(source.path), y_down=True)]


_HOLDS = "Aff(2), elements with a transform, ancestors composed"
FORMAT = Format("svg", "SVG drawing", (".svg",), _HOLDS, _sniff, _read)
