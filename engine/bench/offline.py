"""`python -m engine bench offline`: the core's loop and the runner in one process, without HTTP, in a closed loop.

What it prints is what the device allows: output tokens a second, the share of the time in which a step ran, and the
steps by size. The gap to `bench serve` is what the processes in front cost. `--profile` adds the kernels of the last
steps. Takes the flags of `serve` after its own. Knows no tokenizer.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.bench.workload import Workload
from engine.core.config import CoreConfig
from engine.core.contract import Runner, ScheduleOutput, StepResult
from engine.core.loop import Loop
from engine.core_process import core_config
from engine.flags import parse
from engine.messages import AddRequest, CoreInbound, SamplingParams, StepOutputs
from engine.runner.load import build_runner

_SIZE_CLASS = 64
_PROFILED_STEPS = 20


@dataclass(slots=True)
class _Timed:
    num_tokens: int
    num_rows: int
    start: torch.cuda.Event | float
    end: torch.cuda.Event | float = 0.0


class TimedRunner:
    """A runner that notes when each step began and ended: on the device by events, else by the clock."""

    def __init__(self, runner: Runner[Any], *, on_device: bool) -> None:
        self._runner, self._on_device = runner, on_device
        self.steps: list[_Timed] = []
        self._idle_since = 0.0

    def launch(self, schedule: ScheduleOutput) -> tuple[_Timed, Any]:
        timed = _Timed(schedule.num_tokens, len(schedule.work), self._now())
        handle = self._runner.launch(schedule)
        if self._on_device:
            timed.end = self._now()
        self.steps.append(timed)
        return timed, handle

    def collect(self, handle: tuple[_Timed, Any]) -> StepResult:
        timed, inner = handle
        result = self._runner.collect(inner)
        if not self._on_device:
            # A step launched while another ran began when that one was done.
            timed.start = max(timed.start, self._idle_since)  # type: ignore[type-var]  # both are floats here
            timed.end = self._idle_since = time.perf_counter()
        return result

    def durations_ms(self) -> list[tuple[int, int, float]]:
        """(tokens, rows, milliseconds) of every step. All of them must have been collected."""
        return [(step.num_tokens, step.num_rows, _elapsed_ms(step.start, step.end)) for step in self.steps]

    def _now(self) -> torch.cuda.Event | float:
        if not self._on_device:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's own
        event.record()
        return event


class ClosedLoop:
    """Inbox and outbox of a loop: `concurrency` requests at a time until all are answered."""

    def __init__(self, workload: Workload, concurrency: int) -> None:
        self._workload = workload
        self._num_sent = 0
        self.num_running = 0
        self.num_tokens = 0
        self.finished_s: list[float] = []
        self._due = [self._next() for _ in range(min(concurrency, workload.num_requests))]

    def drain(self, timeout_s: float) -> list[CoreInbound]:
        due, self._due = self._due, []
        return list[CoreInbound](due)

    def emit(self, worker: int, message: StepOutputs) -> None:
        for output in message.outputs:
            self.num_tokens += len(output.token_ids)
            if output.finish_reason is None:
                continue
            assert output.finish_reason == "length", output
            self.finished_s.append(time.perf_counter())
            self.num_running -= 1
            if self._num_sent < self._workload.num_requests:
                self._due.append(self._next())

    @property
    def is_over(self) -> bool:
        return self.num_running == 0

    def _next(self) -> AddRequest:
        index = self._num_sent
        self._num_sent += 1
        self.num_running += 1
        sampling = SamplingParams(
            seed=index, max_tokens=self._workload.output_tokens, temperature=0.0, ignore_eos=True
        )
        return AddRequest(
            request_id=f"offline-{index}",
            worker=0,
            prompt_token_ids=self._workload.prompt(index),
            sampling=sampling,
        )


@dataclass(frozen=True, slots=True)
class OfflineReport:
    """One closed loop."""

    output_tokens_per_s: float
    busy_share: float
    """Of the time, the part in which a step ran."""
    sizes: dict[int, tuple[int, float]]
    """Smallest size of the class in tokens → (steps, mean milliseconds)."""

    def lines(self) -> list[str]:
        head = f"{self.output_tokens_per_s:,.0f} output tokens/s, steps ran {self.busy_share:.1%} of the time"
        total = sum(count * mean for count, mean in self.sizes.values())
        rows = [
            f"  {size:5d}+ tokens: {count:5d} steps, {mean:7.2f} ms each, {count * mean / total:5.1%} of the time"
            for size, (count, mean) in sorted(self.sizes.items())
        ]
        return [head, *rows]


def run(runner: Runner[Any], config: CoreConfig, workload: Workload, concurrency: int) -> OfflineReport:
    """The loop until every request is answered."""
    on_device = torch.cuda.is_available()
    timed, clients = TimedRunner(runner, on_device=on_device), ClosedLoop(workload, concurrency)
    loop: Loop[Any] = Loop(clients, timed, clients.emit, time.monotonic, config)
    started_s = time.perf_counter()
    while not clients.is_over:
        loop.turn()
    elapsed_s = clients.finished_s[-1] - started_s
    while not loop.is_idle:
        loop.turn()
    durations = timed.durations_ms()
    classes: dict[int, list[float]] = defaultdict(list)
    for num_tokens, _, milliseconds in durations:
        classes[num_tokens // _SIZE_CLASS * _SIZE_CLASS].append(milliseconds)
    return OfflineReport(
        clients.num_tokens / elapsed_s,
        sum(milliseconds for _, _, milliseconds in durations) / 1e3 / elapsed_s,
        {size: (len(each), sum(each) / len(each)) for size, each in classes.items()},
    )


def kernels(runner: Runner[Any], config: CoreConfig, workload: Workload, concurrency: int) -> str:
    """A table of the kernels of some steps in the middle of a closed loop, longest first."""
    clients = ClosedLoop(workload, concurrency)
    loop: Loop[Any] = Loop(clients, runner, clients.emit, time.monotonic, config)
    while len(clients.finished_s) < workload.num_requests // 2:
        loop.turn()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(_PROFILED_STEPS):
            loop.turn()
        torch.cuda.synchronize()
    while not loop.is_idle:
        loop.turn()
    events = sorted(profile.key_averages(), key=lambda event: -event.device_time_total)
    total = sum(event.device_time_total for event in events)
    rows = [
        f"{event.device_time_total / total:6.1%} {event.device_time_total / _PROFILED_STEPS:9.1f} us a step "
        f"{event.count / _PROFILED_STEPS:7.1f} launches {event.key[:90]}"
        for event in events[:25]
    ]
    return "\n".join([f"{total / _PROFILED_STEPS / 1e3:.2f} ms of kernels a step", *rows])


def main(argv: Sequence[str]) -> int:
    """`argv` without the leading "bench"."""
    parser = argparse.ArgumentParser(prog="python -m engine bench offline", description=__doc__)
    parser.add_argument("--num-prompts", type=int, default=64)
    parser.add_argument("--random-input-len", type=int, default=128)
    parser.add_argument("--random-output-len", type=int, default=64)
    parser.add_argument("--random-prefix-len", type=int, default=0)
    parser.add_argument("--max-concurrency", type=int, default=8)
    parser.add_argument("--workload-seed", type=int, default=0)
    parser.add_argument("--profile", action="store_true", help="also print the kernels of some steps (GPU)")
    arguments, engine_flags = parser.parse_known_args(argv)
    settings = parse(engine_flags)
    built = build_runner(settings)
    config = core_config(settings, built)
    workload = Workload(
        arguments.num_prompts,
        arguments.random_input_len,
        arguments.random_output_len,
        arguments.workload_seed,
        arguments.random_prefix_len,
        (10, built.model.vocab_size),
    )
    report = run(built.runner, config, workload, arguments.max_concurrency)
    sys.stdout.write("\n".join(report.lines()) + "\n")
    if arguments.profile:
        sys.stdout.write(kernels(built.runner, config, workload, arguments.max_concurrency) + "\n")
    return 0


def _elapsed_ms(start: torch.cuda.Event | float, end: torch.cuda.Event | float) -> float:
    if isinstance(start, float):
        assert isinstance(end, float)
        return (end - start) * 1e3
    assert not isinstance(end, float), "both ends are of one kind"
    milliseconds: float = start.elapsed_time(end)
    return milliseconds
