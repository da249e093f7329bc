"""The core's own figures, sent with every message: how full, how fast, how long the line, how soon an answer.

Reads the scheduler's counters at the end of a step, and tells it what the step took; changes nothing else. Knows
no metric names.
"""

from __future__ import annotations

from engine.core.config import CoreConfig
from engine.core.contract import StepResult
from engine.core.scheduler import Scheduler
from engine.core.step import Step
from engine.messages import LoadStats

_SLOW_EVERY_STEPS = 32
"""Some figures look at every running request or every id, so they are not made anew every step."""
_KEEP = 0.95
"""Of what is known of the speed of reading prompts, per step that reads some."""


class LoadMeter:
    def __init__(self, scheduler: Scheduler, config: CoreConfig) -> None:
        self._scheduler = scheduler
        self._config = config
        self._num_steps = 0
        self._step: Step | None = None
        self._step_s = 0.0
        self._busy_s = 0.0
        self._num_prompt_tokens = 0
        self._graph_hits = 0
        self._graph_misses = 0
        self._last_done_s = float("-inf")
        self._read_s = 0.0
        self._read_tokens = 0.0
        self._page_waste = 0.0
        self._spread = 0.0
        self._sustainable_rps = 0.0

    def step_done(self, step: Step, result: StepResult | None, launched_s: float, now: float) -> None:
        """A step launched while another ran began when that one was done. Without a result it failed."""
        if result is not None:
            self._graph_hits += result.graph_hits
            self._graph_misses += result.graph_misses
        self._step_s = now - max(launched_s, self._last_done_s)
        self._busy_s += self._step_s
        self._last_done_s = now
        self._step = step
        self._num_steps += 1
        self._num_prompt_tokens = _prompt_tokens(step)
        if self._num_prompt_tokens:
            self._read_s = _KEEP * self._read_s + self._step_s
            self._read_tokens = _KEEP * self._read_tokens + self._num_prompt_tokens
        self._scheduler.times.observe(step, self._step_s)
        if self._num_steps % _SLOW_EVERY_STEPS == 0 or not self._scheduler.live:
            self._look_around()

    def stats(self) -> LoadStats:
        scheduler = self._scheduler
        waiting = scheduler.waiting
        delay_s = waiting.predicted_delay_s()
        step = self._step
        return LoadStats(
            num_running=scheduler.num_running,
            num_waiting=waiting.num_requests,
            num_waiting_tokens=waiting.num_tokens,
            kv_usage=scheduler.kv.usage(),
            prefix_queries=scheduler.prefix_queries,
            prefix_hits=scheduler.prefix_hits,
            num_preemptions=scheduler.num_preemptions,
            num_pages_offloaded=scheduler.kv.host.num_offloaded,
            num_pages_restored=scheduler.kv.host.num_restored,
            steps=self._num_steps,
            busy_s=self._busy_s,
            step_ms=self._step_s * 1e3,
            batch_tokens=0 if step is None else step.num_tokens,
            batch_rows=0 if step is None else len(step.requests),
            batch_prompt_tokens=self._num_prompt_tokens,
            predicted_queue_delay_s=delay_s,
            predicted_ttft_s=delay_s + self._seconds_to_first_token(),
            sustainable_rps=self._sustainable_rps,
            page_waste=self._page_waste,
            num_fairness_ids=waiting.num_accounts,
            fairness_spread=self._spread,
            graph_hits=self._graph_hits,
            graph_misses=self._graph_misses,
            num_refused=scheduler.num_refused,
        )

    def _look_around(self) -> None:
        scheduler = self._scheduler
        self._page_waste = scheduler.kv.waste(scheduler.running())
        self._spread = scheduler.waiting.spread
        demand = scheduler.demand
        self._sustainable_rps = demand.sustainable_rps(scheduler.times, scheduler.kv, self._config)

    def _seconds_to_first_token(self) -> float:
        """Of a request of the usual size after its admission: the prompts under way are read before its own."""
        scheduler = self._scheduler
        if self._read_tokens <= 0:
            return self._step_s
        num_tokens = scheduler.num_unread_tokens + scheduler.demand.num_uncached_tokens
        return self._step_s + num_tokens * self._read_s / self._read_tokens


def _prompt_tokens(step: Step) -> int:
    """Tokens of rows with more than one; they stand at the end."""
    count = 0
    for item in reversed(step.schedule.work):
        if item.num_tokens == 1:
            break
        count += item.num_tokens
    return count
