"""What is said about a file that cannot be read: where, what was expected, how to mend it."""

from __future__ import annotations

from .._core.text import LINE, printable


class DataError(ValueError):
    """A file that cannot be read as poses. The message names the file and the place in it.

    It is printable, whatever the file holds and is called.

    Attributes:
        path: the file.
        line, column: counted from 1, in characters; None where a format has no lines.
        problem: the message without the place.
    """

    def __init__(
        self, path: str, problem: str, line: int | None = None, column: int | None = None
    ) -> None:
        self.path, self.problem = path, printable(problem, LINE // 2)
        self.line, self.column = line, column
        place = "".join(
            f", {name} {number}"
            for name, number in (("line", line), ("column", column))
            if number is not None
        )
        super().__init__(f"{printable(path, LINE)}{place}: {self.problem}")

    def __reduce__(self) -> tuple[type[DataError], tuple[str, str, int | None, int | None]]:
        # Workers of a DataLoader send their errors home pickled.
        return DataError, (self.path, self.problem, self.line, self.column)

    def with_hint(self, hint: str) -> DataError:
        """The same error with a sentence more."""
        return DataError(self.path, f"{self.problem} {hint}", self.line, self.column)
