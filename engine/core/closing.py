"""When the batch of the next step is closed: shortly before the step that runs is expected to end.

The loop asks before it schedules a step behind a running one. Whoever arrives until then joins the very next step
instead of the one after it, and the device still finds its work in time. Expectations are what steps of about the
same size took. Knows no scheduler and no runner.

Only small steps are followed so: with more rows the host's own work varies by more than an arrival can gain, and served
throughput fell (128/64 at 128 by 2 %).
"""

from __future__ import annotations

from engine.core.step import Step

MARGIN_S = 0.0005
"""What a wake-up may be late without the device noticing."""
MOST_ROWS = 32
"""Steps of more rows are followed at once."""
_SIZE_CLASS = 8
_SLOWER = 0.25
_CALMER = 0.02


class Closing:
    """Fed with every launch and every end; all times are those of the loop's clock, in seconds."""

    def __init__(self) -> None:
        self._expected_s: dict[int, float] = {}
        """Tokens of a step, in classes → how long it takes. Learns a shorter time at once and a longer one slowly: to
        expect too much would leave the device without work."""
        self._host_s = 0.0
        """From closing a batch to the end of its launch. Learns a longer time at once."""
        self._free_s = float("-inf")
        """Since when the device has been free for the next step."""

    def launched(self, began_s: float, now: float) -> None:
        """A step was scheduled from `began_s` on, and its launch is done."""
        took = now - began_s
        self._host_s = max(took, self._host_s + _CALMER * (took - self._host_s))

    def ended(self, step: Step, launched_s: float, now: float) -> None:
        """A step launched while another ran began when that one was done."""
        took = now - max(launched_s, self._free_s)
        self._free_s = now
        size = _size(step)
        expected = self._expected_s.get(size, took)
        self._expected_s[size] = min(took, expected + _SLOWER * (took - expected))

    def time_left(self, running: Step, launched_s: float, now: float) -> float:
        """How long arrivals may still be waited for; 0 or less: close now, as after a step of a size never seen."""
        if len(running.requests) > MOST_ROWS:
            return 0.0
        expected = self._expected_s.get(_size(running), 0.0)
        return max(launched_s, self._free_s) + expected - self._host_s - MARGIN_S - now


def _size(step: Step) -> int:
    return -(-step.num_tokens // _SIZE_CLASS)
