"""How many replicas a pool needs, from what they said of their queues. Pure: time is in the arguments.

Place: between the supervisor, which samples at each step, and `sizing`. It grows when all of `up_after_s` showed a queue
that is too long, and shrinks by one when all of `down_after_s` showed none and the others can take the work. What a replica
can take is learned: as much as one was seen to do without a queue, or what it did when one formed. Whoever does not
answer is no evidence, and a window with a gap decides nothing. A number that has just changed stays for `cooldown_s`.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil

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


@dataclass(frozen=True, slots=True)
class Decision:
    replicas: int
    reason: str


@dataclass(slots=True)
class History:
    """Of one pool on one node, for as long as its specification stays."""

    samples: deque[Sample] = field(default_factory=deque)
    capacity: float = 0.0
    """Requests that one replica can run at a time without a queue, as far as was seen."""

    def add(self, sample: Sample, policy: Scaling) -> None:
        """Another number of replicas begins anew: what there was with fewer says nothing of more."""
        if self.samples and self.samples[-1].ready != sample.ready:
            self.samples.clear()
        kept_s = max(policy.up_after_s, policy.down_after_s) + 2 * GAP_S
        while self.samples and self.samples[0].at_s < sample.at_s - kept_s:
            self.samples.popleft()
        self.samples.append(sample)
        each = sample.running / sample.ready
        if sample.strain(policy) > 1 and each >= 1:
            self.capacity = each
        elif not sample.waiting:
            self.capacity = max(self.capacity, each)

    def window(self, now_s: float, length_s: float) -> list[Sample] | None:
        """All of that time up to now; None if it is not all known."""
        moments = [sample.at_s for sample in self.samples]
        if not moments or moments[0] > now_s - length_s or now_s - moments[-1] > GAP_S:
            return None
        inside = [sample for sample in self.samples if sample.at_s >= now_s - length_s]
        known = [at_s for at_s in moments if at_s >= now_s - length_s - GAP_S]
        is_whole = all(after - before <= GAP_S for before, after in pairwise(known))
        return inside if inside and is_whole else None


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
    window = history.window(now_s, policy.up_after_s)
    if window is None:
        return None
    strain = min(sample.strain(policy) for sample in window)
    if strain <= TOLERANCE or _is_shrinking(window):
        return None
    needed = min(ceil(wanted * min(strain, GROWTH_MAX)), most)
    last = window[-1]
    delay = f", {last.delay_s:.1f} s expected" if last.delay_s is not None else ""
    queue = f"{last.waiting} wait for {last.ready} replicas{delay}"
    return Decision(max(needed, wanted + 1), f"a queue for {policy.up_after_s:g} s: {queue}")


def _is_shrinking(window: list[Sample]) -> bool:
    return window[-1].waiting < SHRINKING * max(sample.waiting for sample in window)


def _can_shrink(policy: Scaling, history: History, wanted: int, now_s: float) -> bool:
    window = history.window(now_s, policy.down_after_s)
    if window is None:
        return False
    left = HEADROOM * history.capacity * (wanted - 1)
    return all(
        sample.waiting == 0 and sample.strain(policy) <= CALM and sample.running <= left for sample in window
    )
