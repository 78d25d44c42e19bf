"""The `lieattn` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point; says how to install the extra it needs."""
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


if __name__ == "__main__":
    main()
