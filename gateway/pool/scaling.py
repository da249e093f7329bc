"""How many replicas a pool needs, from what they said of their queues. Pure: time is in the arguments.

Place: between the supervisor, which samples at each step, and `sizing`. It grows when all of `up_after_s` showed a queue
that is too long, and shrinks by one when all of `down_after_s` showed none and the others can take the work. What a replica
can take is learned: as much as one was seen to do without a queue, or what it did when one formed. Whoever does not
answer is no evidence, and a window with a gap decides nothing. A number that has just changed stays for `cooldown_s`.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil, inf

from gateway.pool.spec import Scaling

__all__ = ["Decision", "History", "Sample", "decide"]

GAP_S = 10.0
TOLERANCE = 1.1
"""So far above the target nothing is done about it."""
HEADROOM = 0.8
"""The share of what they can take that the others may be left with."""
GROWTH_MAX = 2
SHRINKING = 0.8
"""A queue of less than this share of the longest within the window is dealt with already."""
CALM = 0.5
"""Below this share of the targets a pool may shrink."""


@dataclass(frozen=True, slots=True)
class Sample:
    """All replicas that are ready, at one moment."""

    at_s: float
    ready: int
    running: int
    waiting: int
    delay_s: float | None = None
    """What a new request would wait, as the engines predict it; None where they do not."""

    def strain(self, policy: Scaling) -> float:
        """1: just as long a queue as it may be."""
        waiting = self.waiting / self.ready / policy.waiting_per_replica
        return max(waiting, (self.delay_s or 0.0) / policy.queue_delay_s)

    def is_calm(self, policy: Scaling, others_can: float) -> bool:
        """Nobody waits, and what runs could run on the others."""
        return self.waiting == 0 and self.strain(policy) <= CALM and self.running <= others_can


@dataclass(frozen=True, slots=True)
class Decision:
    replicas: int
    reason: str


@dataclass(slots=True)
class History:
    """Of one pool on one node, for as long as its specification stays. A window may be a day long, so a step looks at
    what has come since the last one."""

    samples: deque[Sample] = field(default_factory=deque)
    capacity: float = 0.0
    """Requests that one replica can run at a time without a queue, as far as was seen."""
    _hole_s: float = -inf
    """The last sample before the newest hole."""
    _busy: tuple[Scaling, float, float, float] | None = None
    """By which policy and capacity of the others, up to when, and the newest sample until then that was not calm."""

    def add(self, sample: Sample, policy: Scaling) -> None:
        """Another number of replicas begins anew: what there was with fewer says nothing of more."""
        if self.samples and self.samples[-1].ready != sample.ready:
            self.samples.clear()
        kept_s = max(policy.up_after_s, policy.down_after_s) + 2 * GAP_S
        while self.samples and self.samples[0].at_s < sample.at_s - kept_s:
            self.samples.popleft()
        if self.samples and sample.at_s - self.samples[-1].at_s > GAP_S:
            self._hole_s = self.samples[-1].at_s
        self.samples.append(sample)
        each = sample.running / sample.ready
        if sample.strain(policy) > 1 and each >= 1:
            self.capacity = each
        elif not sample.waiting:
            self.capacity = max(self.capacity, each)

    def is_known(self, now_s: float, length_s: float) -> bool:
        """All of that time up to now."""
        if not self.samples or self.samples[0].at_s > now_s - length_s:
            return False
        newest_s = self.samples[-1].at_s
        is_fresh = now_s - newest_s <= GAP_S and newest_s >= now_s - length_s
        return is_fresh and self._hole_s < now_s - length_s - GAP_S

    def newest_first(self, since_s: float) -> Iterator[Sample]:
        for sample in reversed(self.samples):
            if sample.at_s < since_s:
                return
            yield sample

    def was_calm(self, policy: Scaling, others_can: float, since_s: float) -> bool:
        """All of that time."""
        seen_s, busy_s = -inf, -inf
        if self._busy is not None and self._busy[:2] == (policy, others_can):
            seen_s, busy_s = self._busy[2:]
        for sample in self.newest_first(seen_s):
            if not sample.is_calm(policy, others_can):
                busy_s = sample.at_s
                break
        self._busy = (policy, others_can, self.samples[-1].at_s, busy_s)
        return busy_s < since_s


def decide(
    policy: Scaling,
    history: History,
    *,
    wanted: int,
    least: int,
    most: int,
    now_s: float,
    since_s: float | None,
    may_grow: bool = True,
) -> Decision | None:
    """`since_s`: how long ago the number last changed. `may_grow`: all that are wanted are there."""
    if since_s is not None and since_s < policy.cooldown_s:
        return None
    if may_grow and wanted < most:
        grown = _grown(policy, history, wanted, most, now_s)
        if grown is not None:
            return grown
    if wanted > max(least, 1) and _can_shrink(policy, history, wanted, now_s):
        return Decision(
            wanted - 1, f"no queue for {policy.down_after_s:g} s, and the others can take the work"
        )
    return None


def _grown(policy: Scaling, history: History, wanted: int, most: int, now_s: float) -> Decision | None:
    """The least of what every moment asked for: a spike that passes is waited out."""
    if not history.is_known(now_s, policy.up_after_s):
        return None
    strain, longest, last = inf, 0, history.samples[-1]
    for sample in history.newest_first(now_s - policy.up_after_s):
        strain, longest = min(strain, sample.strain(policy)), max(longest, sample.waiting)
        if strain <= TOLERANCE:
            return None
    if last.waiting < SHRINKING * longest:
        return None
    needed = min(ceil(wanted * min(strain, GROWTH_MAX)), most)
    delay = f", {last.delay_s:.1f} s expected" if last.delay_s is not None else ""
    queue = f"{last.waiting} wait for {last.ready} replicas{delay}"
    return Decision(max(needed, wanted + 1), f"a queue for {policy.up_after_s:g} s: {queue}")


def _can_shrink(policy: Scaling, history: History, wanted: int, now_s: float) -> bool:
    others_can = HEADROOM * history.capacity * (wanted - 1)
    return history.is_known(now_s, policy.down_after_s) and history.was_calm(
        policy, others_can, now_s - policy.down_after_s
    )
