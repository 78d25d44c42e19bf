"""The `lieattn` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point; says how to install the extra it needs."""
    try:
        import typer
        from rich.console import Console
    except ImportError as missing:
        print(
            f"lieattn: the command line needs {missing.name}. "
            "Install it with: pip install 'lieattn[lab]'",
            file=sys.stderr,
        )
        raise SystemExit(2) from None

    app = typer.Typer(
        help="Lie-Algebra Attention: transformers whose tokens are group elements.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )

    @app.callback(invoke_without_command=True)
    def options(
        version: bool = typer.Option(False, "--version", help="Print the version and exit."),
    ) -> None:
        if version:
            from . import __version__

            print(f"lieattn {__version__}")
            raise typer.Exit

    @app.command()
    def verify(
        samples: int = typer.Option(2000, min=1, help="Random samples a group and dtype."),
        seed: int = typer.Option(0, help="Seed of the samples."),
    ) -> None:
        """Compute the paper's table of instantiations and measure the laws it proves.

        Exits with 1 if anything disagrees.
        """
        from .lab import verify as verification

        if not verification.run(Console(), samples, seed):
            raise typer.Exit(1)

    app()


if __name__ == "__main__":
    main()
