"""Episodes: from what a source sees now and what is open, what begins, what goes on and what is over. Pure.

An episode fires once, however long its cause lasts and however often it flickers: it is over when its cause has been
gone, by more than a hair's breadth, for the whole of the source's hold. What is silenced is recorded all the same; it
is announced when the silence ends before the episode does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

__all__ = ["Episode", "Level", "Severity", "Signal", "Steps", "decide"]

Severity = Literal["page", "ticket", "info"]
"""Wake somebody; look at it today; worth knowing."""
Level = Literal["firing", "between", "quiet"]
"""`between`: not bad enough to begin an episode, not good enough to end one."""


@dataclass(frozen=True, slots=True)
class Signal:
    """What a source sees of one scope now."""

    scope: str
    severity: Severity
    level: Level
    values: Mapping[str, Any]
    tenant_id: str | None = None


@dataclass(frozen=True, slots=True)
class Episode:
    """One that is open."""

    id: str
    source: str
    scope: str
    severity: Severity
    tenant_id: str | None
    values: Mapping[str, Any]
    fired_at: datetime
    quiet_since: datetime | None = None
    is_announced: bool = True


@dataclass(slots=True)
class Steps:
    """`quiet` and `loud`: episodes whose cause has just gone, or has come back before its hold was over."""

    fire: list[Signal] = field(default_factory=list)
    quiet: list[Episode] = field(default_factory=list)
    loud: list[Episode] = field(default_factory=list)
    resolve: list[Episode] = field(default_factory=list)
    announce: list[Episode] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.fire or self.quiet or self.loud or self.resolve or self.announce)


def decide(
    signals: Sequence[Signal],
    open_: Sequence[Episode],
    now: datetime,
    hold: Callable[[Severity], timedelta],
    is_silenced: Callable[[str, str | None], bool],
) -> Steps:
    """`is_silenced` is asked for scope and tenant. A scope that the source no longer speaks of is quiet."""
    steps = Steps()
    seen = {signal.scope: signal for signal in signals}
    known = {episode.scope for episode in open_}
    steps.fire = [one for one in signals if one.level == "firing" and one.scope not in known]
    for episode in open_:
        signal = seen.get(episode.scope)
        _go_on(steps, episode, signal.level if signal is not None else "quiet", now, hold(episode.severity))
        is_over = steps.resolve and steps.resolve[-1] is episode
        if not (is_over or episode.is_announced or is_silenced(episode.scope, episode.tenant_id)):
            steps.announce.append(episode)
    return steps


def _go_on(steps: Steps, episode: Episode, level: Level, now: datetime, hold: timedelta) -> None:
    if level == "quiet":
        if episode.quiet_since is None and hold:
            steps.quiet.append(episode)
        elif episode.quiet_since is None or now - episode.quiet_since >= hold:
            steps.resolve.append(episode)
    elif episode.quiet_since is not None:
        steps.loud.append(episode)
