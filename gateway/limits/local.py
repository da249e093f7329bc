"""The limits of one process by itself, while the cache is away: the same arithmetic as `limiter.lua`.

It is also the script's oracle in the tests. The caller divides the limits by the known replicas first
(`policy.share`). State is bounded and is thrown away when the cache is back. It knows no cache and no ticket.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gateway.limits.policy import Answer, Descriptor, Kind

__all__ = ["DAY_US", "LocalLimits"]

DAY_US = 86_400_000_000
KEYS_MAX = 20_000
"""The least recently used state is forgotten, which gives its owner a full bucket."""


@dataclass(slots=True)
class _State:
    level: float = 0.0
    """Buckets: what is left. Day: what was counted."""
    at_us: int = 0
    """Buckets: when `level` was true. Day: the number of the day."""
    calls: set[str] = field(default_factory=set)


class LocalLimits:
    def __init__(self, now_us: Callable[[], int]) -> None:
        """`now_us` is the wall clock in microseconds, since days begin at midnight UTC."""
        self._now_us = now_us
        self._states: OrderedDict[str, _State] = OrderedDict()

    def consume(self, call: str, descriptors: Sequence[Descriptor], amounts: Sequence[int]) -> Answer:
        """All or nothing."""
        now = self._now_us()
        levels = [self._level(descriptor, now) for descriptor in descriptors]
        refused, wait = _longest_wait(descriptors, levels, amounts, now)
        if refused is None:
            levels = [level - amount for level, amount in zip(levels, amounts, strict=True)]
            for descriptor, level in zip(descriptors, levels, strict=True):
                self._store(call, descriptor, level, now)
        return Answer(
            refused,
            wait,
            now // DAY_US,
            tuple(math.floor(level) for level in levels),
            tuple(_reset_us(*pair, now) for pair in zip(descriptors, levels, strict=True)),
        )

    def peek(self, descriptors: Sequence[Descriptor], refused: int) -> Answer:
        now = self._now_us()
        levels = [self._level(descriptor, now) for descriptor in descriptors]
        resets = tuple(_reset_us(*pair, now) for pair in zip(descriptors, levels, strict=True))
        return Answer(refused, 0, now // DAY_US, tuple(math.floor(level) for level in levels), resets)

    def close(self, call: str, descriptors: Sequence[Descriptor], credits: Sequence[int], day: int) -> None:
        """Ends a call and gives `credits` back; a negative credit is what it still owes."""
        now = self._now_us()
        for descriptor, credit in zip(descriptors, credits, strict=True):
            if descriptor.kind is Kind.CONCURRENT:
                self._state(descriptor.key).calls.discard(call)
            elif descriptor.kind is not Kind.DAY or (day == now // DAY_US and credit > 0):
                level = min(float(descriptor.size), self._level(descriptor, now) + credit)
                self._store(call, descriptor, level, now)

    def adopt(self, call: str, descriptors: Sequence[Descriptor]) -> None:
        """Counts a call that was admitted through the cache among the concurrent ones."""
        for descriptor in descriptors:
            if descriptor.kind is Kind.CONCURRENT:
                self._state(descriptor.key).calls.add(call)

    def _level(self, descriptor: Descriptor, now: int) -> float:
        """What is left of the descriptor at `now`."""
        state = self._states.get(descriptor.key)
        if state is None:
            return float(descriptor.size)
        if descriptor.kind is Kind.CONCURRENT:
            return float(descriptor.size - len(state.calls))
        if descriptor.kind is Kind.DAY:
            return descriptor.size - (state.level if state.at_us == now // DAY_US else 0.0)
        refilled = state.level + max(0, now - state.at_us) * descriptor.rate_per_us
        return min(float(descriptor.size), refilled)

    def _store(self, call: str, descriptor: Descriptor, level: float, now: int) -> None:
        state = self._state(descriptor.key)
        if descriptor.kind is Kind.CONCURRENT:
            state.calls.add(call)
        elif descriptor.kind is Kind.DAY:
            state.level, state.at_us = descriptor.size - level, now // DAY_US
        else:
            state.level, state.at_us = level, now

    def _state(self, key: str) -> _State:
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = _State()
            if len(self._states) > KEYS_MAX:
                self._states.popitem(last=False)
        else:
            self._states.move_to_end(key)
        return state


def _longest_wait(
    descriptors: Sequence[Descriptor], levels: Sequence[float], amounts: Sequence[int], now: int
) -> tuple[int | None, int]:
    waits = [
        (wait, -index)
        for index, (descriptor, level, amount) in enumerate(zip(descriptors, levels, amounts, strict=True))
        if (wait := _wait_us(descriptor, level, amount, now)) is not None
    ]
    if not waits:
        return None, 0
    wait, negative_index = max(waits)
    return -negative_index, math.ceil(wait)


def _wait_us(descriptor: Descriptor, level: float, amount: int, now: int) -> float | None:
    """How long the descriptor refuses for; None if it admits."""
    match descriptor.kind:
        case Kind.CONCURRENT:
            return 0.0 if level < 1 else None
        case Kind.DAY:
            return float(DAY_US - now % DAY_US) if level < amount else None
        case Kind.REQUESTS:
            return (amount - level) / descriptor.rate_per_us if level < amount else None
        case Kind.TOKENS:
            return -level / descriptor.rate_per_us + 1 if level <= 0 else None


def _reset_us(descriptor: Descriptor, level: float, now: int) -> int:
    match descriptor.kind:
        case Kind.CONCURRENT:
            return 0
        case Kind.DAY:
            return DAY_US - now % DAY_US
        case _:
            return math.ceil((descriptor.size - level) / descriptor.rate_per_us)
