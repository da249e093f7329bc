"""When a batch is closed: as late as the device allows, and never later."""

from __future__ import annotations

import pytest

from engine.core.closing import MARGIN_S, MOST_ROWS, Closing
from engine.core.contract import ScheduleOutput, StepResult
from engine.core.loop import Loop
from engine.core.request import Request
from engine.core.step import Step
from engine.messages import CoreInbound
from tests.engine.core.harness import add, config, plan_of

STEP_S = 0.01


def step(num_tokens: int) -> Step:
    plan = plan_of(num_tokens)
    plan.add(request(0), 0, num_tokens, False)
    return Step.from_plan(1, plan, [])


def test_a_batch_closes_before_a_step_of_a_known_size_ends() -> None:
    closing = Closing()
    closing.launched(0.999, 1.0)
    closing.ended(step(40), 1.0, 1.01)
    left = closing.time_left(step(37), 2.0, 2.002)
    assert left == pytest.approx(0.01 - 0.002 - 0.001 - MARGIN_S)
    assert closing.time_left(step(41), 2.0, 2.002) < 0, "a size never seen"


def test_a_step_behind_another_begins_when_that_one_is_done() -> None:
    closing = Closing()
    closing.ended(step(8), 1.0, 1.01)
    closing.ended(step(8), 1.002, 1.018)
    assert closing.time_left(step(8), 1.015, 1.018) == pytest.approx(0.008 - MARGIN_S)


def test_a_step_of_many_rows_is_followed_at_once() -> None:
    closing = Closing()
    for rows, is_small in ((MOST_ROWS, True), (MOST_ROWS + 1, False)):
        plan = plan_of(2 * rows)
        for row in range(rows):
            plan.add(request(row), 0, 2, False)
        running = Step.from_plan(1, plan, [])
        closing.ended(running, 1.0, 1.01)
        assert (closing.time_left(running, 2.0, 2.0) > 0) == is_small


def test_shorter_is_learned_at_once_and_longer_slowly() -> None:
    closing = Closing()
    for launched, took in ((1.0, 0.010), (2.0, 0.004), (3.0, 0.008)):
        closing.ended(step(8), launched, launched + took)
    assert closing.time_left(step(8), 4.0, 4.0) == pytest.approx(0.005 - MARGIN_S)


def test_a_slow_launch_is_allowed_for_from_then_on() -> None:
    closing = Closing()
    for took in (0.001, 0.003, 0.001):
        closing.launched(0.0, took)
    closing.ended(step(8), 1.0, 1.01)
    assert closing.time_left(step(8), 2.0, 2.0) == pytest.approx(0.01 - 0.00296 - MARGIN_S)


def request(row: int) -> Request:
    made = Request.from_message(add(f"r{row}", 5), sequence=row, now=0.0, eos_token_ids=())
    made.row = row
    return made


class Device:
    """A runner beside the host, its clock, and an inbox in which one request turns up at a given time."""

    def __init__(self, arrival_s: float) -> None:
        self.now = 0.0
        self.launched: list[tuple[float, ScheduleOutput]] = []
        self._free_s = 0.0
        self._messages: list[tuple[float, CoreInbound]] = [(0.0, add("a", 5, 100)), (arrival_s, add("b", 5))]

    def launch(self, schedule: ScheduleOutput) -> tuple[float, ScheduleOutput]:
        self.launched.append((self.now, schedule))
        self._free_s = max(self._free_s, self.now) + STEP_S
        return self._free_s, schedule

    def collect(self, handle: tuple[float, ScheduleOutput]) -> StepResult:
        done_s, schedule = handle
        self.now = max(self.now, done_s)
        return StepResult(schedule.step, {work.row: 1 for work in schedule.work if work.samples})

    def drain(self, timeout_s: float) -> list[CoreInbound]:
        if self._messages:
            self.now = min(max(self.now, self._messages[0][0]), self.now + timeout_s)
        else:
            self.now += timeout_s
        due = [message for arrival_s, message in self._messages if arrival_s <= self.now]
        self._messages = self._messages[len(due) :]
        return due


@pytest.mark.parametrize(("closes_late", "waited_steps"), [(True, 1), (False, 2)])
def test_who_arrives_while_a_step_runs_joins_the_next_one(closes_late: bool, waited_steps: int) -> None:
    arrival_s = 10.2 * STEP_S
    device = Device(arrival_s)
    settings = config(closes_late=closes_late)
    loop: Loop[tuple[float, ScheduleOutput]] = Loop(
        device, device, lambda worker, message: None, lambda: device.now, settings
    )
    while len(device.launched) < 20:
        loop.turn()
    number = next(index for index, (_, schedule) in enumerate(device.launched) if len(schedule.work) == 2)
    assert number == 10 + waited_steps, "step 10 runs from 10 to 11 times STEP_S"
    gaps = [
        late - early for (early, _), (late, _) in zip(device.launched[2:], device.launched[3:], strict=False)
    ]
    assert gaps == pytest.approx([STEP_S] * len(gaps)), "the device never waits"
