"""Which spend thresholds are due, and the guard that lets each fire once per period.

Amounts are compared in the database, as integers: what is compared is what was committed. A closed period is judged
only by limits and thresholds that stood when it ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, text

from gateway.alerts.types import Due, Window
from gateway.db import WriteConnection
from gateway.events import Mail
from gateway.ledger.periods import Period

__all__ = ["claim", "due_budgets", "due_months", "mail_of", "period_kinds"]

_KINDS = text("SELECT DISTINCT period, zone FROM budget ORDER BY 1, 2")
_WINDOWS = """
    SELECT * FROM unnest(CAST(:periods AS text[]), CAST(:zones AS text[]), CAST(:keys AS text[]),
        CAST(:closed_ats AS timestamptz[])) WITH ORDINALITY AS w (period, zone, key, closed_at, number)
"""
_NOT_FIRED = "(f.threshold_nanousd IS NULL OR f.threshold_nanousd < t.threshold_nanousd)"
# A percentage of a limit may be above what a bigint holds: such a threshold is never reached.
_THRESHOLDS = text(
    f"""
    SELECT 'budget.threshold_reached' AS type, a.id AS subject, w.number, b.scope, b.tenant_id, b.key_id,
        b.id AS budget_id, t.threshold_nanousd, a.threshold_percent, p.spent_nanousd, b.limit_nanousd, b.is_hard,
        a.recipients, a.subject_prefix
    FROM spend_alert a
    JOIN budget b ON b.id = a.budget_id
    JOIN ({_WINDOWS}) w ON w.period = b.period AND w.zone = b.zone
    JOIN budget_period p ON p.budget_id = b.id AND p.period_key = w.key
    CROSS JOIN LATERAL (SELECT coalesce(a.threshold_nanousd, CAST(least(9223372036854775807,
        ceil(CAST(b.limit_nanousd AS numeric) * a.threshold_percent / 100)) AS bigint)) AS threshold_nanousd) t
    LEFT JOIN alert_firing f ON f.subject = a.id AND f.period_key = w.key
    WHERE p.spent_nanousd >= t.threshold_nanousd AND t.threshold_nanousd > 0 AND {_NOT_FIRED}
        AND (w.closed_at IS NULL OR greatest(a.updated_at, b.updated_at) <= w.closed_at)
    """
)
# Everybody who is told of the budget's thresholds is told of its end.
_EXHAUSTED = text(
    f"""
    SELECT 'budget.exhausted' AS type, b.id AS subject, w.number, b.scope, b.tenant_id, b.key_id, b.id AS budget_id,
        t.threshold_nanousd, NULL AS threshold_percent, p.spent_nanousd, b.limit_nanousd, b.is_hard,
        ARRAY(SELECT DISTINCT r FROM spend_alert a CROSS JOIN unnest(a.recipients) r WHERE a.budget_id = b.id
            ORDER BY r) AS recipients,
        NULL AS subject_prefix
    FROM budget b
    JOIN ({_WINDOWS}) w ON w.period = b.period AND w.zone = b.zone
    JOIN budget_period p ON p.budget_id = b.id AND p.period_key = w.key
    CROSS JOIN LATERAL (SELECT b.limit_nanousd AS threshold_nanousd) t
    LEFT JOIN alert_firing f ON f.subject = b.id AND f.period_key = w.key
    LEFT JOIN budget_refusal r
        ON b.is_hard AND r.budget_id = b.id AND r.period_key = w.key AND r.limit_nanousd = b.limit_nanousd
    WHERE (p.spent_nanousd >= t.threshold_nanousd OR r.budget_id IS NOT NULL) AND t.threshold_nanousd > 0
        AND {_NOT_FIRED}
        AND (w.closed_at IS NULL OR b.updated_at <= w.closed_at)
    """
)
# From the rollups: an alert must not make every request of its scope lock one more row.
_MONTHS = text(
    f"""
    WITH spend AS MATERIALIZED (
        SELECT tenant_id, sum(amount_nanousd) AS amount FROM rollup_day
        WHERE bucket >= :starts_at AND bucket < :ends_at GROUP BY tenant_id
    )
    SELECT 'budget.threshold_reached' AS type, a.id AS subject, 1 AS number,
        CASE WHEN a.tenant_id IS NULL THEN 'organization' ELSE 'tenant' END AS scope, a.tenant_id,
        NULL AS key_id, NULL AS budget_id, a.threshold_nanousd, NULL AS threshold_percent, p.spent_nanousd,
        NULL AS limit_nanousd, NULL AS is_hard, a.recipients, a.subject_prefix
    FROM spend_alert a
    CROSS JOIN LATERAL (SELECT a.threshold_nanousd) t
    LEFT JOIN spend s ON s.tenant_id = a.tenant_id
    CROSS JOIN LATERAL (SELECT CAST(coalesce(
        CASE WHEN a.tenant_id IS NULL THEN (SELECT sum(amount) FROM spend) ELSE s.amount END, 0) AS bigint
    ) AS spent_nanousd) p
    LEFT JOIN alert_firing f ON f.subject = a.id AND f.period_key = :key
    WHERE a.budget_id IS NULL AND p.spent_nanousd >= t.threshold_nanousd AND {_NOT_FIRED}
        AND (CAST(:closed_at AS timestamptz) IS NULL OR a.updated_at <= :closed_at)
    """
)
# Of an alert, its own; of a budget that is used up, those of all its thresholds.
_MAIL = text(
    """
    SELECT ARRAY(SELECT DISTINCT r FROM spend_alert a CROSS JOIN unnest(a.recipients) r
            WHERE a.id = :alert_id OR CAST(:alert_id AS text) IS NULL AND a.budget_id = :budget_id ORDER BY r) AS recipients,
        (SELECT subject_prefix FROM spend_alert WHERE id = :alert_id) AS subject_prefix
    """
)
_CLAIM = text(
    """
    INSERT INTO alert_firing (subject, period_key, threshold_nanousd)
    SELECT * FROM unnest(CAST(:subjects AS text[]), CAST(:keys AS text[]), CAST(:thresholds AS bigint[]))
    ON CONFLICT (subject, period_key) DO UPDATE
        SET threshold_nanousd = EXCLUDED.threshold_nanousd, fired_at = now()
        WHERE alert_firing.threshold_nanousd < EXCLUDED.threshold_nanousd
    RETURNING subject, period_key
    """
)


async def period_kinds(connection: WriteConnection) -> list[tuple[Period, str]]:
    """(period, zone) of the budgets that exist."""
    return [(row.period, row.zone) for row in await connection.execute(_KINDS)]


async def due_budgets(connection: WriteConnection, windows: Sequence[Window]) -> list[Due]:
    """Thresholds of budgets, and budgets that are used up."""
    columns = {
        "periods": [window.period for window in windows],
        "zones": [window.zone for window in windows],
        "keys": [window.key for window in windows],
        "closed_ats": [window.closed_at for window in windows],
    }
    rows = [row for query in (_THRESHOLDS, _EXHAUSTED) for row in await connection.execute(query, columns)]
    return [_due(row, windows[row.number - 1]) for row in rows]


async def due_months(connection: WriteConnection, window: Window) -> list[Due]:
    """Thresholds of a tenant's or the organisation's whole spend in one month (UTC)."""
    bounds = {"starts_at": window.starts_at, "ends_at": window.ends_at}
    values = {**bounds, "key": window.key, "closed_at": window.closed_at}
    return [_due(row, window) for row in await connection.execute(_MONTHS, values)]


async def claim(connection: WriteConnection, due: Sequence[Due]) -> list[Due]:
    """Those that fire now: of two workers that see the same, one gets it. In the order of the guard's key, so that
    the two wait for each other."""
    ordered = sorted(due, key=lambda one: (one.subject, one.window.key))
    rows = await connection.execute(
        _CLAIM,
        {
            "subjects": [one.subject for one in ordered],
            "keys": [one.window.key for one in ordered],
            "thresholds": [one.threshold_nanousd for one in ordered],
        },
    )
    mine = {(row.subject, row.period_key) for row in rows}
    return [one for one in ordered if (one.subject, one.window.key) in mine]


def _due(row: Row[Any], window: Window) -> Due:
    return Due(
        type=row.type,
        subject=row.subject,
        window=window,
        scope=row.scope,
        tenant_id=row.tenant_id,
        key_id=row.key_id,
        budget_id=row.budget_id,
        threshold_nanousd=row.threshold_nanousd,
        threshold_percent=row.threshold_percent,
        spent_nanousd=row.spent_nanousd,
        limit_nanousd=row.limit_nanousd,
        is_hard=row.is_hard,
        recipients=tuple(row.recipients),
        subject_prefix=row.subject_prefix,
    )


async def mail_of(connection: WriteConnection, told: Mapping[str, Any]) -> Mail | None:
    """Who is written to about what an event tells, as the alerts are now."""
    ids = {"alert_id": told["alert_id"], "budget_id": told["budget_id"]}
    row = (await connection.execute(_MAIL, ids)).one()
    return Mail(tuple(row.recipients), row.subject_prefix) if row.recipients else None
