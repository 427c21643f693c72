"""The errors and warnings that callers may want to catch by type."""

from __future__ import annotations


class TreetError(ValueError):
    """Bad input: the message names the thing, says what was got and what to do."""


class MissingExtraError(ImportError):
    """An optional dependency is needed: the message names the extra to install."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs an optional dependency. Install it with: pip install 'transfer-entropy[{extra}]'"
        )


class NotConvergedWarning(UserWarning):
    """Training ended at its step limit while the validation loss was still improving."""


class UnreliableEstimateWarning(UserWarning):
    """The number was computed, but something seen on the way makes it doubtful."""
