"""What an error means for a line of a batch: wait and ask again, run it again, or that is its answer. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gateway.errors import GatewayError, InsufficientQuota, RateLimited, ServerError, ServiceUnavailable

__all__ = ["PATIENCE", "Verdict", "judge"]

RUNS_MAX = 3
"""How often a line is run when engines break over it."""
PATIENCE = 5
POOR_S = 0.1
PAUSE_S_MAX = 60.0
PAUSE_S_MIN = 0.05


@dataclass(frozen=True, slots=True)
class Verdict:
    """`wait`: nothing is wrong with the line, the whole batch pauses; `narrow`: there is no room beside the batch's other
    lines; `poor`: there is none at all, but what is held may come back; `again`: it may be this line's fault; `final`:
    the error is the line's answer."""

    kind: Literal["wait", "narrow", "poor", "again", "final"]
    pause_s: float = 0.0


def judge(error: GatewayError, *, broken: int, waits: int, is_alone: bool, patience: int = 0) -> Verdict:
    """`patience`: how often an empty budget is still waited for. `broken`: how often engines have broken over the line; `waits`: how often it was told to wait in a row."""
    if isinstance(error, RateLimited):
        if error.retry_after_s is None:
            return Verdict("final")
        return Verdict("wait", _within(error.retry_after_s))
    if isinstance(error, InsufficientQuota):
        # Holds may be all that is in the way: of the other lines, of one that is just being settled, of other requests.
        if not is_alone:
            return Verdict("narrow")
        return (
            Verdict("poor", _within(POOR_S * 2 ** (PATIENCE - patience)))
            if patience > 0
            else Verdict("final")
        )
    if isinstance(error, ServiceUnavailable):
        return Verdict("wait", _within((error.retry_after_s or 1.0) * 2 ** min(waits, 6)))
    if isinstance(error, ServerError):
        return Verdict("final") if broken + 1 >= RUNS_MAX else Verdict("again", _within(2.0**broken))
    return Verdict("final")


def _within(pause_s: float) -> float:
    return min(PAUSE_S_MAX, max(PAUSE_S_MIN, pause_s))
