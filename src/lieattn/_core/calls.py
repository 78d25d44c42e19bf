"""How models are called: with arguments by name, and in eval mode for a while."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from torch import nn

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode for a while; every module gets back the mode it had."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def by_name(**renamed: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Say the new call where a keyword-only argument comes by position, or by its old name.

    >>> @by_name(hidden="missing=")
    ... def fill(poses, *, missing, mask=None): ...
    >>> fill(1, 2)
    Traceback (most recent call last):
        ...
    TypeError: pass all arguments after poses by name: fill(poses, missing=..., mask=...).
    >>> fill(1, hidden=2)
    Traceback (most recent call last):
        ...
    TypeError: hidden= is now missing=: fill(poses, missing=..., mask=...).
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = inspect.signature(function).parameters.values()
        first = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        rest = [f"{p.name}=..." for p in parameters if p.kind is p.KEYWORD_ONLY]
        shown = [name for name in first if name != "self"]
        name = function.__qualname__.removesuffix(".forward").replace(".__init__", "")
        call = f"{name}({', '.join(shown + rest)})"

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if len(args) > len(first):
                raise TypeError(f"pass all arguments after {shown[-1]} by name: {call}.")
            for old, new in renamed.items():
                if old in kwargs:
                    raise TypeError(f"{old}= is now {new}: {call}.")
            return function(*args, **kwargs)

        return checked

    return decorate
