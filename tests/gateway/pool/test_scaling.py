"""How many replicas: single rules, and whole days of load against replicas that take their time, on a virtual clock."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import ceil, inf, sin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.pool.scaling import GAP_S, History, Sample, decide
from gateway.pool.spec import Scaling

POLICY = Scaling()


def told(policy: Scaling, samples: list[Sample], wanted: int, now_s: float, **given: object) -> int | None:
    """What is decided after these."""
    history = History()
    for sample in samples:
        history.add(sample, policy)
    bounds = {"least": 1, "most": 8, "since_s": None} | given
    decision = decide(policy, history, wanted=wanted, now_s=now_s, **bounds)  # type: ignore[arg-type]
    return decision.replicas if decision is not None else None


def steady(
    seconds: int, ready: int = 2, running: int = 8, waiting: int = 0, delay_s: float | None = None
) -> list[Sample]:
    return [Sample(float(at), ready, running, waiting, delay_s) for at in range(seconds + 1)]


def test_a_queue_that_lasts_asks_for_more() -> None:
    assert told(POLICY, steady(30, waiting=12), 2, 30.0) == 3
    assert told(POLICY, steady(30, delay_s=3.0), 2, 30.0) == 3, "so does a long wait"
    assert told(POLICY, steady(30, waiting=1000), 2, 30.0) == 4, "at most twice as many at once"
    assert told(POLICY, steady(30, waiting=1000), 2, 30.0, most=3) == 3
    assert told(POLICY, steady(30, waiting=1000), 8, 30.0) is None
    assert told(POLICY, steady(29, waiting=1000), 2, 29.0) is None, "it has not lasted yet"
    assert told(POLICY, steady(30, waiting=8), 2, 30.0) is None, "just as long as it may be"


def test_a_queue_that_gets_shorter_is_dealt_with_already() -> None:
    samples = [replace(sample, waiting=1000 - 7 * int(sample.at_s)) for sample in steady(30)]
    assert told(POLICY, samples, 2, 30.0) is None
    slow = [replace(sample, waiting=1000 - 6 * int(sample.at_s)) for sample in steady(30)]
    assert told(POLICY, slow, 2, 30.0) == 4


def test_one_moment_without_a_queue_is_enough_to_wait() -> None:
    samples = steady(30, waiting=1000)
    samples[17] = replace(samples[17], waiting=0)
    assert told(POLICY, samples, 2, 30.0) is None


def test_it_grows_only_when_all_that_are_wanted_are_there_and_not_at_once_again() -> None:
    samples = steady(30, waiting=1000)
    assert told(POLICY, samples, 2, 30.0, may_grow=False) is None
    assert told(POLICY, samples, 2, 30.0, since_s=59.0) is None
    assert told(POLICY, samples, 2, 30.0, since_s=60.0) == 4


def test_it_shrinks_by_one_when_the_others_can_take_the_work() -> None:
    busy = steady(10, running=16)  # eight each were run without a queue
    calm = [replace(sample, at_s=sample.at_s + 11) for sample in steady(300, running=6)]
    assert told(POLICY, busy + calm, 2, 311.0) == 1
    assert told(POLICY, busy + calm[:-1], 2, 310.0) is None, "not for long enough"
    almost = [replace(sample, running=7) for sample in calm]
    assert told(POLICY, busy + almost, 2, 311.0) is None, "the other would be left with too much"
    assert told(POLICY, steady(300, running=6), 2, 300.0) is None, "what it can take was never seen"
    assert told(POLICY, steady(300, running=0), 2, 300.0) == 1, "nothing is taken by anybody"
    assert told(POLICY, busy + calm, 2, 311.0, least=2) is None
    assert told(POLICY, steady(300, ready=1, running=0), 1, 300.0, least=0) is None, "never the last one"


def test_a_queue_shows_what_a_replica_can_take() -> None:
    history = History()
    for sample in (Sample(0, 2, 20, 0), Sample(1, 2, 12, 100), Sample(2, 2, 10, 0), Sample(3, 2, 0, 100)):
        history.add(sample, POLICY)
    assert history.capacity == 6


@pytest.mark.parametrize("gap", [(10, 22), (0, 12), (19, 31)])
def test_who_does_not_answer_is_no_evidence(gap: tuple[int, int]) -> None:
    """Dead samples: a window with a hole decides neither way."""
    for samples, wanted, length in ((steady(30, waiting=1000), 2, 30), (steady(300, running=0), 2, 300)):
        assert told(POLICY, samples, wanted, float(length)) is not None
        holed = [sample for sample in samples if not gap[0] < sample.at_s - (length - 30) < gap[1]]
        assert told(POLICY, holed, wanted, float(length)) is None
    assert told(POLICY, steady(30, waiting=1000), 2, 31.0 + GAP_S) is None, "nor does an old one"


def test_another_number_of_replicas_begins_anew() -> None:
    samples = steady(20, waiting=1000) + [
        replace(sample, at_s=sample.at_s + 21) for sample in steady(20, ready=3, waiting=1000)
    ]
    assert told(POLICY, samples, 3, 41.0) is None


class Day:
    """A pool whose replicas run eight requests at a time, ten seconds each, and take a minute to start."""

    EACH, SERVICE_S, START_S, STEP_S = 8, 10.0, 60, 5

    def __init__(
        self, rate: Callable[[int], float], replicas: int = 1, most: int = 6, policy: Scaling = POLICY
    ) -> None:
        self.rate, self.most, self.policy = rate, most, policy
        self.wanted, self.in_system = replicas, 0.0
        self.ready_at = [-inf] * replicas
        self.history = History()
        self.changed_s: float | None = None
        self.changes: list[tuple[int, int]] = []
        self.longest_wait_s = 0.0
        self.is_dead: Callable[[int], bool] = lambda at: False

    @property
    def counts(self) -> list[int]:
        return [count for _, count in self.changes]

    def run(self, begin: int, end: int) -> "Day":
        for at in range(begin, end, self.STEP_S):
            ready = sum(one <= at for one in self.ready_at)
            slots = ready * self.EACH
            self.in_system += self.rate(at) * self.STEP_S
            running = min(self.in_system, slots)
            waiting = self.in_system - running
            self.in_system -= running * self.STEP_S / self.SERVICE_S
            delay_s = waiting / (slots / self.SERVICE_S)
            self.longest_wait_s = max(self.longest_wait_s, delay_s)
            if not self.is_dead(at):
                self.history.add(
                    Sample(float(at), ready, round(running), round(waiting), delay_s), self.policy
                )
            self._decide(at, ready)
        return self

    def _decide(self, at: int, ready: int) -> None:
        decision = decide(
            self.policy, self.history, wanted=self.wanted, least=1, most=self.most, now_s=float(at),
            since_s=at - self.changed_s if self.changed_s is not None else None, may_grow=ready == self.wanted,
        )  # fmt: skip
        if decision is None:
            return
        grown = [at + self.START_S] * (decision.replicas - self.wanted)
        self.ready_at = sorted(self.ready_at)[: decision.replicas] + [float(one) for one in grown]
        self.wanted, self.changed_s = decision.replicas, float(at)
        self.changes.append((at, decision.replicas))


def rps(replicas: float) -> float:
    """What keeps that many replicas busy."""
    return replicas * Day.EACH / Day.SERVICE_S


HOUR = 3600


def assert_settled(day: Day) -> None:
    """It rose, fell at most once, and changed no more after two hours."""
    peak = day.counts.index(max(day.counts))
    assert day.counts[: peak + 1] == sorted(day.counts[: peak + 1])
    assert day.counts[peak:] == sorted(day.counts[peak:], reverse=True)
    assert day.changes[-1][0] < 2 * HOUR


def test_a_constant_load_settles() -> None:
    day = Day(lambda at: rps(2.5)).run(0, 5 * HOUR)
    assert day.wanted in (3, 4)
    assert_settled(day)


def test_a_ramp_up_and_down_is_followed() -> None:
    def rate(at: int) -> float:
        return rps(0.5 + 4 * min(at, 8 * HOUR - at) / (4 * HOUR))

    day = Day(rate).run(0, 8 * HOUR + HOUR)
    assert max(day.counts) in (5, 6)
    assert day.wanted == 1
    peak = day.counts.index(max(day.counts))
    assert day.counts[: peak + 1] == sorted(day.counts[: peak + 1])
    assert day.counts[peak:] == sorted(day.counts[peak:], reverse=True), "down without coming up again"
    assert day.longest_wait_s < 120


def test_a_spike_that_passes_is_waited_out() -> None:
    day = Day(lambda at: rps(4) if at % 600 < 10 else rps(0.5)).run(0, 4 * HOUR)
    assert day.changes == []


@pytest.mark.parametrize("period_s", [20, 60, 120, 240, 290])
def test_load_that_comes_and_goes_makes_nothing_flap(period_s: int) -> None:
    day = Day(lambda at: rps(3) if at % period_s < period_s / 2 else 0.0).run(0, 6 * HOUR)
    assert_settled(day)


def test_a_slow_swing_costs_one_change_each_way_and_replica() -> None:
    day = Day(lambda at: rps(2.2 + 1.8 * sin(at * 6.283 / (2 * HOUR)))).run(0, 12 * HOUR)
    assert len(day.changes) <= 6 * 2 * 5
    gaps = [after - before for (before, _), (after, _) in zip(day.changes, day.changes[1:], strict=False)]
    assert min(gaps) >= POLICY.cooldown_s


def test_silence_changes_nothing_and_no_load_ends_at_the_least() -> None:
    silent = Day(lambda at: rps(4), replicas=2)
    silent.is_dead = lambda at: at % 30 > 0
    assert silent.run(0, HOUR).changes == []
    idle = Day(lambda at: 0.0, replicas=5).run(0, 2 * HOUR)
    assert idle.counts == [4, 3, 2, 1]


def told_plainly(
    policy: Scaling, samples: list[Sample], capacity: float, wanted: int, now_s: float
) -> int | None:
    """The rules once more, each over all the samples."""

    def window(length_s: float) -> list[Sample]:
        moments = [sample.at_s for sample in samples]
        known = [at_s for at_s in moments if at_s >= now_s - length_s - GAP_S]
        is_whole = all(after - before <= GAP_S for before, after in pairwise(known))
        is_old = bool(moments) and moments[0] <= now_s - length_s and now_s - moments[-1] <= GAP_S
        return [one for one in samples if one.at_s >= now_s - length_s] if is_whole and is_old else []

    up, down = window(policy.up_after_s), window(policy.down_after_s)
    strain = min((sample.strain(policy) for sample in up), default=0.0)
    if wanted < 8 and strain > 1.1 and up[-1].waiting >= 0.8 * max(sample.waiting for sample in up):
        return max(min(ceil(wanted * min(strain, 2)), 8), wanted + 1)
    can = 0.8 * capacity * (wanted - 1)
    is_calm = [s.waiting == 0 and s.strain(policy) <= 0.5 and s.running <= can for s in down]
    return wanted - 1 if wanted > 1 and down and all(is_calm) else None


STEPS = st.tuples(
    st.sampled_from([0.4, 1.0, 1.0, 1.0, GAP_S, GAP_S + 0.1, 25.0]),
    st.integers(0, 8),
    st.sampled_from([0, 0, 0, 0, 7, 20]),
    st.sampled_from([None, 0.1, 3.0]),
)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([(3.0, 5.0), (1.0, 40.0), (12.0, 2.0)]),
    st.lists(STEPS, min_size=1, max_size=60),
    st.integers(1, 3),
)
def test_every_step_decides_as_if_it_looked_at_all_of_the_window(
    lengths: tuple[float, float], steps: list[tuple[float, int, int, float | None]], wanted: int
) -> None:
    policy = Scaling(up_after_s=lengths[0], down_after_s=lengths[1])
    history, at_s = History(), 0.0
    for pause_s, running, waiting, delay_s in steps:
        at_s += pause_s
        history.add(Sample(at_s, 2, running, waiting, delay_s), policy)
        for now_s in (at_s, at_s + 4.0, at_s + GAP_S + 1.0):
            decision = decide(policy, history, wanted=wanted, least=1, most=8, now_s=now_s, since_s=None)
            plainly = told_plainly(policy, [*history.samples], history.capacity, wanted, now_s)
            assert (decision.replicas if decision else None) == plainly


class Counted(Sample):
    """How often somebody looked at its queue."""

    looks = 0

    def strain(self, policy: Scaling) -> float:
        Counted.looks += 1
        return super().strain(policy)


def test_a_window_of_a_day_costs_a_step_no_more_than_one_of_a_minute() -> None:
    policy = Scaling(down_after_s=24 * 3600)
    history = History()
    Counted.looks = 0
    steps = 24 * 3600 + 60
    for at in range(steps):
        waiting = 5 if at == 40 else 0  # so that nothing is decided before the end
        history.add(Counted(float(at), 2, 0, waiting), policy)
        decision = decide(policy, history, wanted=2, least=1, most=8, now_s=float(at), since_s=None)
        assert (decision is not None) == (at > 40 + 24 * 3600)
    assert Counted.looks < 5 * steps
