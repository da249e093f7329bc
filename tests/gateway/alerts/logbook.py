"""Episodes without a database: does what `decide` says, and keeps what happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from gateway.alerts.episodes import Episode, Severity, Signal, Steps, decide

START = 1_790_000_000 // 86_400 * 86_400
"""Unix seconds of minute 0."""


class Logbook:
    """`log`: (minute, what, scope)."""

    def __init__(self, hold: Callable[[Severity], timedelta]) -> None:
        self.hold = hold
        self.open: dict[str, Episode] = {}
        self.log: list[tuple[int, str, str]] = []
        self.is_silent = False

    def look(self, minute: int, signals: Sequence[Signal]) -> Steps:
        now = datetime.fromtimestamp(START + 60 * minute, UTC)
        steps = decide(signals, list(self.open.values()), now, self.hold, lambda _, __: self.is_silent)
        for one in steps.fire:
            self.open[one.scope] = Episode(
                one.scope, "s", one.scope, one.severity, None, {}, now, is_announced=not self.is_silent
            )
            self.log.append((minute, "fired", one.scope))
        for episode in steps.quiet:
            self.open[episode.scope] = replace(self.open[episode.scope], quiet_since=now)
        for episode in steps.loud:
            self.open[episode.scope] = replace(self.open[episode.scope], quiet_since=None)
        for episode in steps.announce:
            self.open[episode.scope] = replace(self.open[episode.scope], is_announced=True)
            self.log.append((minute, "announced", episode.scope))
        for episode in steps.resolve:
            del self.open[episode.scope]
            self.log.append((minute, "resolved", episode.scope))
        return steps
