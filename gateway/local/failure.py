"""The one kind of error that a start on this machine reports: a sentence, not a traceback."""

__all__ = ["LocalError"]


class LocalError(RuntimeError):
    """Something stops the start; the message says what it is and what to do."""
