"""The exceptions of this package."""

from __future__ import annotations


class EmbedctlError(RuntimeError):
    """The program refused a request, or ended before it had answered.

    The message holds the program's own message. ``exit_code`` is the program's exit code (negative: the signal that
    ended it; ``None``: it never started or still ran).
    """

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.exit_code)


class ProgramNotFoundError(EmbedctlError, FileNotFoundError):
    """The program ``embedctl`` is not where it should be, or is of another version than this package."""

    # FileNotFoundError would show errno and file; there is only a message here.
    __str__ = RuntimeError.__str__


class TextError(EmbedctlError, ValueError):
    """A text could not be embedded. ``row`` is its number in the input, from 0; ``reason`` is the program's."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"row {row}: {reason}")
        self.row = row
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.row, self.reason)
