"""What is said about a file that cannot be read: where, what was expected, how to mend it."""

from __future__ import annotations


class DataError(ValueError):
    """A file that cannot be read as poses. The message names the file and the place in it.

    Attributes:
        path: the file.
        line, column: counted from 1, in characters; None where a format has no lines.
        problem: the message without the place.
    """

    def __init__(
        self, path: str, problem: str, line: int | None = None, column: int | None = None
    ) -> None:
        self.path, self.problem, self.line, self.column = path, problem, line, column
        place = "".join(
            f", {name} {number}"
            for name, number in (("line", line), ("column", column))
            if number is not None
        )
        super().__init__(f"{path}{place}: {problem}")

    def __reduce__(self) -> tuple[type[DataError], tuple[str, str, int | None, int | None]]:
        # Workers of a DataLoader send their errors home pickled.
        return DataError, (self.path, self.problem, self.line, self.column)

    def with_hint(self, hint: str) -> DataError:
        """The same error with a sentence more."""
        return DataError(self.path, f"{self.problem} {hint}", self.line, self.column)


def quoted(text: str, width: int = 24) -> str:
    """A piece of a file, short and free of control characters, for a message."""
    short = text if len(text) <= width else text[: width - 3] + "..."
    return repr(short)


def printable(text: str, width: int = 120) -> str:
    """A message of others, on one line and free of control characters."""
    short = text if len(text) <= width else text[: width - 3] + "..."
    return "".join(c if c.isprintable() else " " for c in short).strip()
