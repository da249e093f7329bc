"""When a failed delivery is tried again. Pure; one schedule for every channel."""

from collections.abc import Callable

__all__ = ["SCHEDULE_S", "delay_s"]

_MINUTE_S, _HOUR_S = 60.0, 3600.0
SCHEDULE_S = (
    0.0,
    5.0,
    5 * _MINUTE_S,
    30 * _MINUTE_S,
    2 * _HOUR_S,
    5 * _HOUR_S,
    10 * _HOUR_S,
    14 * _HOUR_S,
    20 * _HOUR_S,
    24 * _HOUR_S,
)
"""How long the attempt of that number waits for, counted from the failure before it; the first is made at once."""
JITTER_PERCENT = 20


def delay_s(attempts: int, draw: Callable[[int], int], at_least_s: float = 0.0) -> float | None:
    """After that many failed attempts; None: it is given up. Up to a fifth longer than the schedule says, so that what
    failed together does not come back together. `draw(n)` is a whole number below n. Who asks for more time
    (`at_least_s`) gets it, up to the longest wait of the schedule."""
    assert attempts >= 1
    if attempts >= len(SCHEDULE_S):
        return None
    wait_s = max(SCHEDULE_S[attempts], min(at_least_s, SCHEDULE_S[-1]))
    return wait_s * (100 + draw(JITTER_PERCENT + 1)) / 100
