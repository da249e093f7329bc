"""The real core in virtual time: requests arrive at given moments, a step takes what a cost model says.

Costs are those of an 8B model on one H200, roughly. Answers have the length that was asked for; everything that
callers would see (first token, gaps between tokens, refusals) is noted with its time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from engine.core.config import CoreConfig
from engine.core.contract import KVGroup, KVLayout, ScheduleOutput, StepResult
from engine.core.loop import Loop
from engine.messages import AddRequest, CoreInbound, SamplingParams, StepOutputs, TokenOutput


@dataclass(frozen=True)
class Costs:
    """Seconds."""

    step: float = 6e-3
    token: float = 25e-6
    row: float = 10e-6
    key_read: float = 3e-8
    key_compared: float = 1.3e-9
    noise: float = 0.05

    def of(self, schedule: ScheduleOutput) -> float:
        total = self.step
        for work in schedule.work:
            total += self.token * work.num_tokens + self.row + self.key_read * (work.start + work.num_tokens)
            if work.num_tokens > 1:
                total += self.key_compared * work.num_tokens * (work.start + work.num_tokens / 2)
        return total


@dataclass
class Story:
    """What became of one request."""

    arrived_s: float
    message: AddRequest
    token_times: list[float] = field(default_factory=list)
    final: TokenOutput | None = None
    ended_s: float = 0.0

    @property
    def ttft_s(self) -> float:
        return self.token_times[0] - self.arrived_s

    @property
    def tpot_s(self) -> float:
        return (self.token_times[-1] - self.token_times[0]) / max(1, len(self.token_times) - 1)

    @property
    def is_refused(self) -> bool:
        return self.final is not None and self.final.finish_reason == "error"


def settings(**changes: object) -> CoreConfig:
    layout = KVLayout(16, changes.pop("num_blocks", 50_000), (KVGroup((0,), None),))  # type: ignore[arg-type]  # an int
    limits: dict[str, object] = {
        "max_model_len": 140_000,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 2048,
        "max_num_mixed_tokens": 512,
        "max_num_queued_reqs": 100_000,
        "max_num_queued_tokens": 10**9,
        "queue_timeout_s": 1e6,
        "enable_prefix_caching": False,
    }
    return CoreConfig(layout=layout, eos_token_ids=(0,), **{**limits, **changes})  # type: ignore[arg-type]  # as given


class Virtual:
    """Runner, inbox, clock and callers in one; `run` until everything is answered or `until_s`."""

    def __init__(self, config: CoreConfig, *, costs: Costs = Costs(), seed: int = 1) -> None:
        self.now = 0.0
        self.stories: dict[str, Story] = {}
        self.step_seconds: list[float] = []
        self.on_turn: Callable[[], None] = lambda: None
        self._rng = random.Random(seed)
        self._costs = costs
        self._free_s = 0.0
        self._arrivals: list[tuple[float, int, AddRequest]] = []
        self._next = 0
        self.loop: Loop[tuple[float, StepResult]] = Loop(self, self, self._receive, lambda: self.now, config)

    def arrive(self, requests: Iterable[tuple[float, AddRequest]]) -> None:
        """(when, what), in any order."""
        self._arrivals += [
            (at, len(self._arrivals) + number, message) for number, (at, message) in enumerate(requests)
        ]

    def run(self, until_s: float = float("inf")) -> None:
        self._arrivals.sort(key=lambda arrival: arrival[:2])
        while self.now < until_s and (self._next < len(self._arrivals) or not self.loop.is_idle):
            self.loop.turn()
            self.on_turn()

    def of(self, prefix: str) -> list[Story]:
        """Of the requests whose ids begin so."""
        return [story for id, story in self.stories.items() if id.startswith(prefix)]

    # The loop's ports

    def drain(self, timeout_s: float) -> list[CoreInbound]:
        arrivals = self._arrivals
        if timeout_s and self._next < len(arrivals) and arrivals[self._next][0] > self.now:
            self.now = min(self.now + timeout_s, arrivals[self._next][0])
        messages: list[CoreInbound] = []
        while self._next < len(arrivals) and arrivals[self._next][0] <= self.now:
            at, _, message = arrivals[self._next]
            self.stories[message.request_id] = Story(at, message)
            messages.append(message)
            self._next += 1
        return messages

    def launch(self, schedule: ScheduleOutput) -> tuple[float, StepResult]:
        noise = self._costs.noise
        took = self._costs.of(schedule) * self._rng.uniform(1 - noise, 1 + noise)
        self._free_s = max(self.now, self._free_s) + took
        self.step_seconds.append(took)
        return self._free_s, StepResult(
            schedule.step, {work.row: 1 for work in schedule.work if work.samples}
        )

    def collect(self, handle: tuple[float, StepResult]) -> StepResult:
        self.now = max(self.now, handle[0])
        return handle[1]

    def _receive(self, worker: int, message: StepOutputs) -> None:
        for output in message.outputs:
            story = self.stories[output.request_id]
            story.token_times += [self.now] * len(output.token_ids)
            if output.finish_reason is not None:
                assert story.final is None, "one terminal output each"
                story.final, story.ended_s = output, self.now


def request(id: str, prompt: int, output: int, **fields: object) -> AddRequest:
    return AddRequest(
        request_id=id,
        worker=0,
        prompt_token_ids=[1] * prompt,
        sampling=SamplingParams(seed=0, max_tokens=output, ignore_eos=True),
        **fields,  # type: ignore[arg-type]  # of AddRequest
    )


def poisson(
    rng: random.Random, rate: float, until_s: float, make: Callable[[int], AddRequest]
) -> list[tuple[float, AddRequest]]:
    """Arrivals at random moments, `rate` a second."""
    arrivals: list[tuple[float, AddRequest]] = []
    now = rng.expovariate(rate)
    while now < until_s:
        arrivals.append((now, make(len(arrivals))))
        now += rng.expovariate(rate)
    return arrivals


def capacity(requests: list[AddRequest], config: CoreConfig, costs: Costs = Costs()) -> float:
    """Requests of this mix a second with every row in use."""
    engine = Virtual(config, costs=costs)
    engine.arrive((0.0, message) for message in requests)
    engine.run()
    return len(requests) / engine.now


def p95(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[int(0.95 * (len(ordered) - 1))]
