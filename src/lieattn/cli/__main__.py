"""`python -m lieattn.cli`."""

from . import main

main()
