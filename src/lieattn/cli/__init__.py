"""The `lieattn` command."""

from __future__ import annotations

import errno
import os
import sys

from .._core import stopping

_RESUMED = "Nothing is lost: the same command goes on from where it was."
_KEPT = dict.fromkeys(("train", "reproduce", "realdata"), _RESUMED)


def main() -> None:
    """Entry point: takes over signals, says which extra is missing, and when output has no room."""
    command = next((x for x in sys.argv[1:] if x.isalpha()), "")
    stopping.watch(
        f"lieattn {command}".rstrip(),
        _KEPT.get(command, "Nothing was written."),
        silent=command == "train" and os.environ.get("RANK", "0") != "0",  # of torchrun
    )
    try:
        _run()
    finally:
        stopping.finished()


def _run() -> None:
    try:
        from .app import app  # only now: rich and typer may not be installed

        app()
    except ImportError as missing:
        if missing.name is None or missing.name.startswith("lieattn"):
            raise
        print(
            f"lieattn: the command line needs {missing.name}. "
            "Install it with: pip install 'lieattn[lab]'",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    except OSError as full:
        # Files are written with care of their own: this is what was printed.
        if full.errno != errno.ENOSPC or full.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the last flush
        print(f"lieattn: cannot write the output: {full.strerror}.", file=sys.stderr)
        raise SystemExit(2) from None
