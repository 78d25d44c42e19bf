"""The commands of `lieattn`, each in a file of its own, imported when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from .._core.errors import RunError

# The first paragraph of each command's docstring, which it would take seconds to import. A test
# compares them.
COMMANDS = {
    "data": "Describe files of poses, and recommend settings for training.",
    "train": "Train a model that fills gaps: some poses are hidden and predicted from the rest.",
    "predict": "Fill gaps in files: rows of nan, and rows hidden with --hide.",
    "evaluate": "Print errors on hidden poses of the test part, with those of simple methods.",
    "verify": "Compute the paper's table of instantiations and measure the laws it proves.",
    "reproduce": "Run the paper's experiments; write a report of tables and figures.",
    "realdata": "Train models on the built-in data sets, and compare them with simple methods.",
    "bench": "Measure time and memory of attention over poses and of plain attention.",
}


# Metavariables of types. Flags have none.
VALUES = {"bool": "", "int": "N", "float": "X", "Path": "PATH", "str": "TEXT"}


class Short:
    """Help with short types, to leave room for descriptions."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for parameter in self.get_params(ctx):  # type: ignore[attr-defined]
            shorten(parameter)
        super().format_help(ctx, formatter)  # type: ignore[misc]


class Command(Short, TyperCommand):
    """A command that refuses earlier names of options with the new one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {name for x in self.get_params(ctx) for name in (*x.opts, *x.secondary_opts)}
        for given in args:
            option = given.partition("=")[0]
            if option.startswith("--") and option not in known:
                _require_no_earlier_name(option)
        return super().parse_args(ctx, args)


def _require_no_earlier_name(option: str) -> None:
    from ..workflows.settings import RENAMED
    from .shared import errors_told

    for old, new in RENAMED.items():
        if option in (f"--{old}", f"--no-{old}"):
            with errors_told():
                raise RunError(f"{option} is now {option.replace(old, new.replace('_', '-'))}.")


def shorten(parameter: Any) -> None:
    """Short types, no ranges, one form of a flag. For help only: the process ends after it."""
    parameter.min = parameter.max = None
    if parameter.param_type_name == "argument":
        parameter.display_type_rich = lambda ctx: None
        return
    if parameter.metavar is None:
        bare = parameter.bare_type().removeprefix("list[").removesuffix("]")
        parameter.metavar = VALUES.get(bare, bare.upper())
    if parameter.secondary_opts:  # --x and --no-x: the one that is not the default
        if parameter.default is True:
            parameter.opts, parameter.show_default = parameter.secondary_opts, False
        parameter.secondary_opts = []


def load(name: str) -> TyperCommand:
    """A command with its options. Imports torch."""
    function = getattr(import_module(f".{name}", __package__), name)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, cls=Command)(function)
    command = typer.main.get_command(alone)
    assert isinstance(command, TyperCommand)
    return command


class Commands(Short, TyperGroup):
    """A group that imports a command only when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(name) if name else None, rest


app = typer.Typer(
    cls=Commands,
    help="Transformers over sets of poses (Lie-Algebra Attention).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        from .. import __version__

        print(f"lieattn {__version__}")
        raise typer.Exit
