"""The core's own figures, sent with every message: how full, how fast, how long the line.

Reads the scheduler's counters at the end of a step; changes nothing. Knows no metric names.
"""

from __future__ import annotations

from engine.core.scheduler import Scheduler
from engine.core.step import Step
from engine.messages import LoadStats

_WASTE_EVERY_STEPS = 32
"""Page waste looks at every running request, so it is not recounted every step."""


class LoadMeter:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._num_steps = 0
        self._batch_tokens = 0
        self._step_ms = 0.0
        self._last_done_s = float("-inf")
        self._page_waste = 0.0

    def step_done(self, step: Step, launched_s: float, now: float) -> None:
        """A step launched while another ran began when that one was done."""
        self._step_ms = (now - max(launched_s, self._last_done_s)) * 1e3
        self._last_done_s = now
        self._batch_tokens = step.num_tokens
        self._num_steps += 1
        if self._num_steps % _WASTE_EVERY_STEPS == 0 or not self._scheduler.live:
            self._page_waste = self._scheduler.kv.waste(self._scheduler.running())

    def stats(self) -> LoadStats:
        scheduler = self._scheduler
        waiting = scheduler.waiting
        return LoadStats(
            num_running=scheduler.num_running,
            num_waiting=waiting.num_requests,
            num_waiting_tokens=waiting.num_tokens,
            kv_usage=scheduler.kv.usage(),
            prefix_queries=scheduler.prefix_queries,
            prefix_hits=scheduler.prefix_hits,
            num_preemptions=scheduler.num_preemptions,
            steps=self._num_steps,
            step_ms=self._step_ms,
            batch_tokens=self._batch_tokens,
            predicted_queue_delay_s=waiting.predicted_delay_s(),
            page_waste=self._page_waste,
        )
