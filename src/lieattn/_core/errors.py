"""What a user can correct."""


class RunError(Exception):
    """An error that the user can correct: commands print it without a traceback."""
