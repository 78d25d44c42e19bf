"""Dataclasses whose fields state what they are for and which values they take.

Files are checked against them, and commands take their options from them.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields, replace
from math import inf
from types import UnionType
from typing import Any, get_args, get_type_hints

from .text import printable, unknown

TEXTS, OBJECT = tuple[str, ...], dict[str, Any]
WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text in quotes",
    TEXTS: "a list of texts",
    OBJECT: "an object",
    type(None): "null",
}


class OptionError(ValueError, TypeError):
    """A value that does not fit its field: of another type, or out of bounds."""


@dataclass(frozen=True)
class Option:
    """What a field is for, and which values it takes.

    Attributes:
        help, panel: text and group of options in the help of a command.
        least, most: bounds of numbers.
        ends: "[" and "]" for bounds that may be reached, "(" and ")" for others.
        choices: the texts that it may be.
        practice: the default of a command, if it differs from that of the dataclass.
        kinds, default: types and default of the field.
    """

    help: str = ""
    panel: str = ""
    least: float = -inf
    most: float = inf
    ends: str = "[]"
    choices: tuple[str, ...] = ()
    practice: Any = None
    kinds: tuple[Any, ...] = ()
    default: Any = None

    def accepts(self, value: Any) -> bool:
        """Whether a value has one of the types, and is within bounds; NaN is not."""
        if not any(_is(value, kind) for kind in self.kinds):
            return False
        if isinstance(value, str):
            return not self.choices or value in self.choices
        if isinstance(value, int | float) and not isinstance(value, bool):
            low = value > self.least or ("[" in self.ends and value == self.least)
            return low and (value < self.most or ("]" in self.ends and value == self.most))
        return True

    def expected(self) -> str:
        """The values in words.

        >>> Option(least=0, most=1, ends="[)", choices=("auto",), kinds=(float, str)).expected()
        'a number from 0 to below 1 or auto'
        """
        low = "above " * ("(" in self.ends) + _shown(self.least)
        high = "below " * (")" in self.ends) + _shown(self.most)
        bounds = f" from {low} to {high}" if self.most < inf else ""
        if self.least > -inf and not bounds:
            bounds = f" of at least {low}"
        number = {kind: WORDS[kind] + bounds for kind in (int, float)}
        text = {str: " or ".join(self.choices)} if self.choices else {}
        words = {**WORDS, **number, **text}
        return " or ".join(words.get(kind, f"a {kind.__name__}") for kind in self.kinds)


def option(
    default: Any = MISSING,
    help: str = "",
    panel: str = "",
    least: float = -inf,
    most: float = inf,
    ends: str = "[]",
    *,
    choices: Any = (),
    practice: Any = None,
) -> Any:
    """A field of a dataclass with an `Option`; `choices` may be a function."""
    own = Option(help, panel, least, most, ends, practice=practice)
    return field(default=default, metadata={"option": own, "choices": choices})


def options(kind: type) -> dict[str, Option]:
    """The options of a dataclass by the names of its fields."""
    types = get_type_hints(kind)
    found = {}
    for x in fields(kind):
        hint = types[x.name]
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        own = x.metadata.get("option", Option())
        known = x.metadata.get("choices", ())
        choices = tuple(known() if callable(known) else known)
        found[x.name] = replace(own, choices=choices, kinds=kinds, default=x.default)
    return found


def require(kind: type, values: dict[str, Any], where: str = "") -> None:
    """Make sure that values fit the fields of a dataclass.

    Raises:
        OptionError: one does not, with what is expected.
    """
    for name, own in options(kind).items():
        value = values.get(name, own.default)
        if own.accepts(value):
            continue
        if isinstance(value, str) and own.kinds == (str,):
            raise OptionError(where + unknown(name, value, filter(None, own.choices)))
        shown = str(value).lower() if isinstance(value, bool) else printable(repr(value), 60)
        shown = "nothing" if value is MISSING else shown
        raise OptionError(f"{where}{name} must be {own.expected()}, got {shown}.")


def read(kind: type, values: dict[str, Any], where: str = "") -> Any:
    """A dataclass from JSON; other keys are left out.

    Raises:
        OptionError: as `require`.
    """
    require(kind, values, where)
    found = {}
    for name, own in options(kind).items():
        value = values.get(name, own.default)
        is_list, is_number = TEXTS in own.kinds, own.kinds == (float,)
        found[name] = tuple(value) if is_list else float(value) if is_number else value
    return kind(**found)


def _is(value: Any, kind: Any) -> bool:
    if kind == TEXTS:
        return isinstance(value, list | tuple) and all(isinstance(x, str) for x in value)
    if kind == OBJECT:
        return isinstance(value, dict)
    if kind not in WORDS:
        return isinstance(value, kind)
    return type(value) is kind or (kind is float and type(value) is int)


def _shown(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"
