"""What a step costs the core in Python: `python -m engine.bench.core --rows 256`.

Runs the real loop with a runner that answers at once, so all the time measured is bookkeeping: drain,
schedule, accept the tokens, emit. Prints the median per step of a steady batch of answers, and of the
parts. Knows no model; the figures go to BENCHMARKS.md by hand.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from engine.core.config import CoreConfig
from engine.core.contract import KVGroup, KVLayout, ScheduleOutput, StepResult
from engine.core.loop import Loop
from engine.messages import AddRequest, CoreInbound, SamplingParams, StepOutputs

P = ParamSpec("P")
R = TypeVar("R")
_MIXED_TOKENS = 512


class InstantRunner:
    """Every sampled token is 1, at once."""

    def launch(self, schedule: ScheduleOutput) -> StepResult:
        return StepResult(schedule.step, {work.row: 1 for work in schedule.work if work.samples})

    def collect(self, handle: StepResult) -> StepResult:
        return handle


class ListInbox:
    def __init__(self, messages: list[CoreInbound]) -> None:
        self._messages = messages

    def drain(self, timeout_s: float) -> list[CoreInbound]:
        messages, self._messages = self._messages, []
        return messages


def measure(
    num_rows: int,
    prompt: int,
    num_steps: int,
    windows: tuple[int | None, ...],
    *,
    with_terms: bool = False,
) -> dict[str, float]:
    """Microseconds per step, over steps in which every row is an answer that goes on. Prompts differ in
    length, so that every step fills some pages. `with_terms`: every other request has promises and a page share,
    and every fourth is batch work."""
    # The first answers begin while the last prompts are still read, half a mixed step at a time.
    answer = num_steps + 64 + num_rows * (prompt + 16) // (_MIXED_TOKENS // 2)
    total = prompt + answer
    groups = tuple(KVGroup((index,), window) for index, window in enumerate(windows))
    pages = len(groups) * num_rows * (total // 16 + 2)
    config = CoreConfig(
        layout=KVLayout(16, pages, groups),
        max_model_len=2 * total,
        max_num_seqs=num_rows,
        max_num_batched_tokens=8192,
        max_num_mixed_tokens=_MIXED_TOKENS,
        eos_token_ids=(0,),
    )
    requests: list[CoreInbound] = [
        AddRequest(
            request_id=f"request-{row}",
            worker=0,
            prompt_token_ids=[row, *range(prompt - 1 + row % 16)],
            sampling=SamplingParams(seed=0, max_tokens=answer),
            fairness_id=f"tenant-{row % 16}",
            request_class="batch" if with_terms and row % 4 == 1 else "interactive",
            tpot_ms=1e6 if with_terms and row % 2 == 0 else None,
            max_kv_fraction=0.5 if with_terms and row % 2 == 0 else 1.0,
        )
        for row in range(num_rows)
    ]
    emitted: deque[StepOutputs] = deque(maxlen=1)
    loop = Loop(
        ListInbox(requests),
        InstantRunner(),
        lambda worker, news: emitted.append(news),
        time.monotonic,
        config,
    )
    while not emitted or len(emitted[-1].outputs) < num_rows:
        loop.turn()
    schedule_us: list[float] = []
    loop._scheduler.schedule = _timed(loop._scheduler.schedule, schedule_us)  # type: ignore[method-assign]  # to time it
    turn_us: list[float] = []
    turn = _timed(loop.turn, turn_us)
    for _ in range(num_steps):
        turn()
    assert len(emitted[-1].outputs) == num_rows, "the batch is not steady"
    return {
        "turn": statistics.median(turn_us),
        "turn p99": statistics.quantiles(turn_us, n=100)[98],
        "schedule": statistics.median(schedule_us),
    }


def _timed(function: Callable[P, R], into: list[float]) -> Callable[P, R]:
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        began = time.perf_counter()
        result = function(*args, **kwargs)
        into.append((time.perf_counter() - began) * 1e6)
        return result

    return wrapper


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--prompt", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument(
        "--terms", action="store_true", help="requests with promises, page shares and classes"
    )
    arguments = parser.parse_args()
    for windows in ((None,), (None, 512, 512, 512, 512, 512)):
        figures = measure(
            arguments.rows, arguments.prompt, arguments.steps, windows, with_terms=arguments.terms
        )
        text = ", ".join(f"{name} {value:.0f} us" for name, value in figures.items())
        print(f"{arguments.rows} rows, {len(windows)} KV groups: {text}")


if __name__ == "__main__":
    main()
