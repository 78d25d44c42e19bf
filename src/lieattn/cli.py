"""The `lieattn` command."""

from __future__ import annotations

import errno
import os
import sys


def main() -> None:
    """Entry point; says how to install the extra it needs, and when output has no room."""
    try:
        from .lab.commands import app

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


if __name__ == "__main__":
    main()
