"""The watch over spend: what reached a threshold is recorded and announced, once per period.

Reads what is committed, so it may run late or on several workers at once: the guard decides. A period that is just
over is judged for an hour longer, since its last requests settle after its end and a worker may have been down. What is
silenced is recorded all the same, and told when the silence ends before its period does. It does not know who delivers
what it announces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from gateway.alerts.episodes import Episode
from gateway.alerts.repository.episodes import begin, mark_announced, open_episodes, row_of
from gateway.alerts.repository.silences import Silence, holding_silences
from gateway.alerts.repository.spend import claim, due_budgets, due_months, mail_of, period_kinds
from gateway.alerts.types import Due, Window
from gateway.clock import Clock
from gateway.db import Database, WriteConnection
from gateway.events import Event, EventType, Mail, announce
from gateway.ids import IdSource
from gateway.ledger.periods import Period, period_bounds, period_key, zone_of
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Metrics

__all__ = ["SpendWatch", "windows_of"]

LAST_LOOK = timedelta(hours=1)
FIRED_MAX = 500
"""In one transaction."""
MONTH: tuple[Period, str] = ("monthly", "UTC")
SOURCES: tuple[EventType, ...] = ("budget.threshold_reached", "budget.exhausted")


class SpendWatch:
    def __init__(self, database: Database, *, clock: Clock, ids: IdSource, metrics: Metrics) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids
        self._metrics = metrics
        self._log = get_logger(__name__)

    async def run_once(self) -> int:
        """How many fired."""
        now = self._clock.now()
        async with self._database.transaction() as connection:
            windows = windows_of(await period_kinds(connection), now)
            due = await due_budgets(connection, windows) if windows else []
            for month in windows_of([MONTH], now):
                due += await due_months(connection, month)
            await self._tell_late(connection, now)
        chunks = [due[first : first + FIRED_MAX] for first in range(0, len(due), FIRED_MAX)]
        return sum([await self._fire(chunk, now) for chunk in chunks])

    async def _fire(self, due: Sequence[Due], now: datetime) -> int:
        """The guard, the records and their outbox rows are one transaction."""
        async with self._database.transaction() as connection:
            fired = await claim(connection, due)
            silences = {
                type_: await holding_silences(connection, type_, now) for type_ in {one.type for one in fired}
            }
            episodes = [self._episode(one, now, silences[one.type]) for one in fired]
            pairs = zip(fired, episodes, strict=True)
            await announce(
                connection, [_event(one, now) for one, row in pairs if row["announced_at"] is not None]
            )
            if fired:
                await begin(connection, episodes)
        for one in fired:
            self._metrics.alerts_fired.labels(one.type).inc()
            self._log.info("spend_alert_fired", type=one.type, subject=one.subject, period=one.window.key)
        return len(fired)

    async def _tell_late(self, connection: WriteConnection, now: datetime) -> None:
        """What was silenced and still is so, once the silence is over."""
        for source in SOURCES:
            waiting = await open_episodes(connection, source, untold=True)
            if waiting:
                silences = await holding_silences(connection, source, now)
                loud = [one for one in waiting if _silence_of(silences, one.scope, one.tenant_id) is None]
                told = await mark_announced(connection, [one.id for one in loud], now)
                mails = {one.id: await mail_of(connection, one.values) for one in loud if one.id in told}
                await announce(
                    connection,
                    [_late_event(one, source, mails[one.id], now) for one in loud if one.id in told],
                )

    def _episode(self, due: Due, now: datetime, silences: Sequence[Silence]) -> dict[str, Any]:
        """Beside those of other sources, until the period is over. It is announced as the event that it is."""
        scope = " ".join((due.subject, due.window.key, str(due.threshold_nanousd)))
        silence = _silence_of(silences, scope, due.tenant_id)
        episode = Episode(
            id=self._ids.new("episode"),
            source=due.type,
            scope=scope,
            severity="ticket",
            tenant_id=due.tenant_id,
            values=_payload(due),
            fired_at=now,
            is_announced=silence is None,
        )
        return row_of(episode, silence.id if silence is not None else None)


def windows_of(kinds: Iterable[tuple[Period, str]], now: datetime) -> list[Window]:
    """The running period of each kind, and the one before it while that is still looked at."""
    windows: list[Window] = []
    for period, name in kinds:
        zone = zone_of(name)
        key = period_key(period, zone, now)
        if period == "prepaid":
            windows.append(Window(period, name, key, None, None))
            continue
        starts_at, ends_at = period_bounds(period, zone, now)
        windows.append(Window(period, name, key, starts_at, ends_at))
        if now < starts_at + LAST_LOOK:
            inside = starts_at - timedelta(microseconds=1)
            bounds = period_bounds(period, zone, inside)
            windows.append(
                Window(period, name, period_key(period, zone, inside), *bounds, closed_at=starts_at)
            )
    return windows


def _event(due: Due, now: datetime) -> Event:
    mail = Mail(due.recipients, due.subject_prefix) if due.recipients else None
    key = f"{due.subject} {due.window.key} {due.threshold_nanousd}"
    return Event(due.type, due.tenant_id, key, _payload(due), now, mail)


def _late_event(episode: Episode, source: EventType, mail: Mail | None, now: datetime) -> Event:
    """As it would have been told: an episode's scope is its event's key."""
    return Event(source, episode.tenant_id, episode.scope, dict(episode.values), now, mail)


def _silence_of(silences: Sequence[Silence], scope: str, tenant_id: str | None) -> Silence | None:
    return next((one for one in silences if one.covers(scope, tenant_id)), None)


def _payload(due: Due) -> dict[str, Any]:
    """What receivers are told. Whoever reads it may be outside: no address, nothing of other scopes."""
    window = due.window
    return {
        "alert_id": due.subject if due.subject != due.budget_id else None,
        "budget_id": due.budget_id,
        "scope": due.scope,
        "project_id": due.tenant_id,
        "key_id": due.key_id,
        "period": {
            "kind": window.period,
            "id": window.key,
            "starts_at": _unix(window.starts_at),
            "ends_at": _unix(window.ends_at),
        },
        "threshold_nanousd": due.threshold_nanousd,
        "threshold_percent": due.threshold_percent,
        "spent_nanousd": due.spent_nanousd,
        "limit_nanousd": due.limit_nanousd,
        "is_hard": due.is_hard,
    }


def _unix(at: datetime | None) -> int | None:
    return int(at.timestamp()) if at is not None else None
