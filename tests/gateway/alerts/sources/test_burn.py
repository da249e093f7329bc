"""Simulations with a virtual clock, minute by minute over days: each burn fires once and resolves once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace

from gateway.alerts.kinds import KINDS
from gateway.alerts.sources.burn import burn_signals
from gateway.slo.burn import slices
from gateway.slo.evaluation import evaluate
from gateway.slo.types import ALL_TENANTS, Series, State, Sums
from tests.gateway.alerts.logbook import START, Logbook
from tests.gateway.slo.test_burn import state
from tests.gateway.slo.test_matching import objective

PROMISE = objective(sli="availability", threshold_us=0, target_ppm=999_000)
HOUR, DAY = 60, 1_440


class World:
    """Traffic by minute, as running sums, so that any range is two look-ups."""

    def __init__(self) -> None:
        self.times: list[int] = []
        self.sums: list[Sums] = [Sums()]

    def count(self, at: int, bad: int, total: int) -> None:
        self.times.append(at)
        self.sums.append(self.sums[-1] + Sums(total - bad, total))

    def states(self, at: int) -> list[State]:
        found = {
            part.start: sum((self._between(one.start, one.end) for one in part.segments), Sums())
            for part in slices(at)
        }
        series = Series("proj_a", "m", "interactive", "availability")
        return evaluate([PROMISE], {(series, 0): found}, at)

    def _between(self, start: int, end: int) -> Sums:
        first, last = (self.sums[bisect_left(self.times, at)] for at in (start, end))
        return Sums(last.good - first.good, last.total - first.total)


def simulate(
    minutes: int, traffic: Callable[[int], tuple[int, int]], step: int = 1
) -> list[tuple[int, str, str]]:
    """`traffic`: (bad, all) of a minute. What was told: minute, what, severity. Looks every `step` minutes."""
    world, book = World(), Logbook(KINDS["slo.burn_rate"].hold_of)
    for minute in range(minutes):
        at = START + minute * 60
        world.count(at, *traffic(minute))
        if minute % step == 0:
            book.look(minute, burn_signals(world.states(at)))
    return [(minute, what, scope.rpartition("/")[2]) for minute, what, scope in book.log]


def told(log: list[tuple[int, str, str]], severity: str) -> list[str]:
    return [what for _, what, of in log if of == severity]


def test_a_fast_burn_pages_once_within_minutes_and_is_over_soon_after_its_cause() -> None:
    """An hour of every fifth request failing, after a good day."""
    log = simulate(3 * DAY, lambda minute: (20 if DAY <= minute < DAY + HOUR else 0, 100))
    assert told(log, "page") == ["fired", "resolved"]
    (fired, _, _), (resolved, _, _) = [one for one in log if one[2] == "page"]
    assert DAY < fired <= DAY + 10
    assert DAY + HOUR < resolved <= DAY + HOUR + 40
    assert told(log, "ticket") == ["fired", "resolved"], "a budget that was hurt is looked at by day, once"


def test_a_slow_burn_is_a_ticket_once_and_no_page() -> None:
    """Two days of 0.4 %: four times what is allowed."""
    log = simulate(8 * DAY, lambda minute: (4 if DAY <= minute < 3 * DAY else 0, 1_000), step=5)
    assert told(log, "page") == []
    assert told(log, "ticket") == ["fired", "resolved"]
    (fired, _, _), (resolved, _, _) = log
    assert DAY < fired < 2 * DAY
    assert 3 * DAY < resolved < 4 * DAY


def test_a_tiny_tenant_is_heard_only_when_there_is_enough_to_tell() -> None:
    """A request every ten minutes. One failure is nothing; of half a day of nothing else somebody hears, once."""
    one = simulate(2 * DAY, lambda minute: (int(minute == DAY), int(minute % 10 == 0)), step=5)
    assert one == []
    dozen = simulate(
        2 * DAY, lambda minute: (int(DAY <= minute < DAY + HOUR and minute % 5 == 0),) * 2, step=5
    )
    assert dozen == [], "so few say nothing about a rate, though all of them failed"
    half_a_day = simulate(
        6 * DAY,
        lambda minute: (int(minute % 10 == 0 and DAY <= minute < DAY + 12 * HOUR), int(minute % 10 == 0)),
        step=5,
    )
    assert told(half_a_day, "ticket") == ["fired", "resolved"]
    assert told(half_a_day, "page") == ["fired", "resolved"]
    paged = next(minute for minute, _, severity in half_a_day if severity == "page")
    assert paged >= DAY + 90


def test_a_flickering_cause_is_one_episode() -> None:
    """Two minutes broken, two minutes whole, for two hours."""
    log = simulate(
        2 * DAY, lambda minute: (50 if DAY <= minute < DAY + 2 * HOUR and minute % 4 < 2 else 0, 100)
    )
    assert told(log, "page") == ["fired", "resolved"]


def test_nothing_wrong_is_nothing_told() -> None:
    assert simulate(DAY, lambda minute: (int(minute % 60 == 0), 100)) == []


def test_an_episode_is_over_only_well_below_what_began_it() -> None:
    """Between four fifths of a threshold and the threshold nothing begins, and nothing ends."""
    levels = {}
    for bad in (145, 143, 116, 115):
        signals = burn_signals([state(w1h=(bad, 10_000), w5m=(bad, 10_000))])
        levels[bad] = [one.level for one in signals if one.severity == "page"]
    assert levels == {145: ["firing"], 143: ["between"], 116: ["between"], 115: []}


def test_whom_it_concerns() -> None:
    bad = {"w1h": (500, 1_000), "w5m": (500, 1_000), "w1d": (500, 1_000), "w2h": (500, 1_000)}
    assert burn_signals([state()]) == [], "nothing is said of what is well"
    signals = burn_signals([state(**bad)])
    assert {one.tenant_id for one in signals} == {"proj_a"}
    assert {one.severity for one in signals} == {"page", "ticket"}
    assert len({one.scope for one in signals}) == 2
    together = Series(ALL_TENANTS, "m", "interactive", "availability")
    found = burn_signals([replace(state(**bad), series=together)])
    assert {one.tenant_id for one in found} == {None}
