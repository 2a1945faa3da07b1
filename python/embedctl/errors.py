"""What can go wrong, as exceptions."""

from __future__ import annotations


class EmbedctlError(RuntimeError):
    """The program refused what it was asked for, or ended before it had answered.

    Its message holds the program's own words. ``exit_code`` is the program's (negative: the signal that ended it,
    ``None``: it never started or still ran).
    """

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.exit_code)


class ProgramNotFoundError(EmbedctlError, FileNotFoundError):
    """The program ``embedctl`` is not where it should be, or is of another version than this package."""

    # FileNotFoundError shows errno and file where it has them; here there is only the message.
    __str__ = RuntimeError.__str__


class TextError(EmbedctlError, ValueError):
    """A text could not be embedded. ``row`` is its number, from 0, in what was given; ``reason`` is the program's."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"row {row}: {reason}")
        self.row = row
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.row, self.reason)
