"""The watch over one source of alerts: what it sees becomes episodes, and episodes are announced.

The change of an episode and what is announced of it are one transaction, so whoever dies in between has done neither.
Any number of workers may watch the same source: they decide one after the other, from what is open. It knows sources
by their function alone, and not who delivers what is announced.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gateway.alerts.episodes import Episode, Signal, Steps, decide
from gateway.alerts.kinds import KINDS
from gateway.alerts.repository import episodes as book
from gateway.alerts.repository.silences import Silence, holding_silences
from gateway.alerts.sentences import sentence_of
from gateway.clock import Clock
from gateway.db import Database, WriteConnection
from gateway.events import TENANT_EVENT_TYPES, Event, EventType, announce
from gateway.ids import IdSource
from gateway.obs.failpoints import failpoint
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Metrics

__all__ = ["EpisodeWatch", "Look"]

Look = Callable[[], Awaitable[Sequence[Signal] | None]]
"""What a source sees now; None if it cannot tell, and then nothing changes."""


@dataclass(frozen=True, slots=True)
class _Telling:
    """What is said of one episode."""

    episode: Episode
    resolved_at: datetime | None = None


class EpisodeWatch:
    def __init__(
        self, database: Database, source: str, look: Look, *, clock: Clock, ids: IdSource, metrics: Metrics
    ) -> None:
        self._database = database
        self._source = source
        self._kind = KINDS[source]
        self._look = look
        self._clock = clock
        self._ids = ids
        self._metrics = metrics
        self._log = get_logger(__name__)

    async def run_once(self) -> None:
        signals = await self._look()
        if signals is None:
            return
        now = self._clock.now()
        async with self._database.transaction() as connection:
            await book.lock_source(connection, self._source)
            open_ = await book.open_episodes(connection, self._source)
            silences = await holding_silences(connection, self._source, now)
            steps = decide(
                signals,
                open_,
                now,
                self._kind.hold_of,
                lambda scope, tenant_id: _silence_of(silences, scope, tenant_id) is not None,
            )
            latest = {signal.scope: signal.values for signal in signals}
            await book.note_values(
                connection, {one.id: dict(latest[one.scope]) for one in open_ if one.scope in latest}
            )
            begun = await self._apply(connection, steps, silences, now)
            failpoint("episode.before_commit")
        for episode in begun:
            self._metrics.alerts_fired.labels(self._kind.firing or self._source).inc()
            self._log.warning(
                "alert_fired", source=self._source, scope=episode.scope, severity=episode.severity
            )
        for episode in steps.resolve:
            self._log.info("alert_resolved", source=self._source, scope=episode.scope)

    async def _apply(
        self, connection: WriteConnection, steps: Steps, silences: Sequence[Silence], now: datetime
    ) -> list[Episode]:
        """Those that began."""
        if steps.is_empty:
            return []
        begun = await self._begin(connection, steps.fire, silences, now)
        await book.mark_quiet(connection, [one.id for one in steps.quiet], now)
        await book.mark_loud(connection, [one.id for one in steps.loud])
        told = await book.mark_announced(connection, [one.id for one in steps.announce], now)
        ended = await book.resolve(connection, [one.id for one in steps.resolve], now)
        tellings = [_Telling(one) for one in begun if one.is_announced]
        tellings += [_Telling(one) for one in steps.announce if one.id in told]
        tellings += [_Telling(one, now) for one in steps.resolve if one.id in ended and one.is_announced]
        await announce(connection, [event for one in tellings for event in self._event(one, now)])
        return begun

    async def _begin(
        self,
        connection: WriteConnection,
        signals: Sequence[Signal],
        silences: Sequence[Silence],
        now: datetime,
    ) -> list[Episode]:
        made: list[Episode] = []
        rows: list[dict[str, Any]] = []
        for signal in signals:
            silence = _silence_of(silences, signal.scope, signal.tenant_id)
            episode = Episode(
                id=self._ids.new("episode"),
                source=self._source,
                scope=signal.scope,
                severity=signal.severity,
                tenant_id=signal.tenant_id,
                values=signal.values,
                fired_at=now,
                is_announced=silence is None,
            )
            made.append(episode)
            rows.append(book.row_of(episode, silence.id if silence is not None else None))
        begun = await book.begin(connection, rows) if rows else frozenset()
        return [one for one in made if one.id in begun]

    def _event(self, telling: _Telling, now: datetime) -> list[Event]:
        """One, or none of an end that nobody is told of."""
        episode, is_over = telling.episode, telling.resolved_at is not None
        kind: EventType | None = self._kind.resolved if is_over else self._kind.firing
        if kind is None:
            return []
        state = "resolved" if is_over else "firing"
        payload = {
            "episode_id": episode.id,
            "state": state,
            "incident": episode.id,
            "summary": sentence_of(episode.source, episode.values, is_over=is_over),
            "source": episode.source,
            "scope": episode.scope,
            "severity": episode.severity,
            "project_id": episode.tenant_id,
            "fired_at": int(episode.fired_at.timestamp()),
            "resolved_at": int(telling.resolved_at.timestamp()) if telling.resolved_at is not None else None,
            "values": dict(episode.values),
        }
        tenant_id = episode.tenant_id if kind in TENANT_EVENT_TYPES else None
        return [Event(kind, tenant_id, f"{episode.id} {state}", payload, now)]


def _silence_of(silences: Sequence[Silence], scope: str, tenant_id: str | None) -> Silence | None:
    return next((one for one in silences if one.covers(scope, tenant_id)), None)
