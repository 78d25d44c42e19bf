"""The `lieattn` command."""

from __future__ import annotations

import sys
from pathlib import Path


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

    @app.command()
    def reproduce(
        group: list[str] = typer.Option(
            [], help="SE2, SO3, Aff2 (the default), SO2, SE3, Aff3, or all. May be given again."
        ),
        model: list[str] = typer.Option([], help="G, C, A, or all (the default)."),
        protocol: list[str] = typer.Option([], help="paper (the default), improved, or all."),
        seeds: int = typer.Option(3, min=1, help="Seeds 0, 1, ... of every configuration."),
        epochs: int | None = typer.Option(None, min=1, help="Epochs; 200, or 20 with --quick."),
        instances: int = typer.Option(5000, help="Training sequences of a run."),
        full: bool = typer.Option(False, "--full/--quick", help="200 epochs, or a first look."),
        out: Path | None = typer.Option(None, help="Folder; runs/full or runs/quick."),
        jobs: int | None = typer.Option(None, min=1, help="Processes; one a core."),
        again: bool = typer.Option(False, "--again", help="Run anew what is finished."),
    ) -> None:
        """Run the paper's experiments and write a report of tables and figures.

        Stop it any way you like, the same command goes on from where it was.
        """
        from .lab import reproduce as experiments
        from .lab.storage import RunError

        try:
            asked = experiments.request(
                group,
                model,
                protocol,
                seeds=seeds,
                epochs=epochs,
                instances=instances,
                quick=not full,
            )
            folder = out or Path("runs") / ("full" if full else "quick")
            workers = jobs or experiments.cores()
            experiments.run(asked, folder, Console(), jobs=workers, again=again)
        except RunError as error:
            Console(stderr=True).print(f"lieattn: {error}", highlight=False, markup=False)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            Console(stderr=True).print("lieattn: stopped. The same command goes on from here.")
            raise typer.Exit(130) from None

    app()


if __name__ == "__main__":
    main()
