"""Journals as they were read, and what of them the ledger does not have yet."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from sqlalchemy import text

from gateway.db import WriteConnection
from gateway.ids import PoolId, ReplicaId, RequestId
from gateway.ledger.models import Attempt, JournalAttempt
from gateway.ledger.repository.rows import insert_recordset
from gateway.reconcile.evidence import JournalAttempt as Evidence
from gateway.reconcile.journal import ReplicaRef

__all__ = [
    "attempts_of",
    "cursor_of",
    "replicas",
    "save_page",
    "unsettled_requests",
    "write_unbilled",
]

_REPLICAS = text(
    """
    SELECT r.id, r.pool_id, r.url, coalesce(p.spec ->> 'kind', 'tollway') = 'tollway',
        CASE WHEN r.state = 'stopped' THEN r.updated_at END, r.journal_dir
    FROM replica r JOIN pool p ON p.id = r.pool_id ORDER BY r.id
    """
)
_CURSOR = text("SELECT cursor FROM journal_cursor WHERE replica_id = :replica_id")
_SAVE_CURSOR = text(
    """
    INSERT INTO journal_cursor (replica_id, cursor) VALUES (:replica_id, :cursor)
    ON CONFLICT (replica_id) DO UPDATE SET cursor = EXCLUDED.cursor, read_at = now()
    """
)
_SAVE_EPOCHS = text(
    """
    INSERT INTO engine_epoch (replica_id, epoch)
    SELECT CAST(:replica_id AS text), * FROM unnest(CAST(:epochs AS text[]))
    ON CONFLICT (replica_id, epoch) DO UPDATE SET last_seen_at = now()
    """
)
_COUNTERS = ("prompt_tokens", "cached_tokens", "completion_tokens", "overrun_tokens")
_NEWER = ("resumed_from", "finish_reason", "queue_ms", "ttft_ms", "e2e_ms", "at")
_SAVE_ATTEMPTS = text(
    f"""
    {insert_recordset(JournalAttempt, "attempts", skip=("read_at", "matched_at", "drift_tokens"))}
    ON CONFLICT (request_id, attempt) DO UPDATE SET
        has_ended = EXCLUDED.has_ended, read_at = now(),
        {", ".join(f"{name} = greatest(journal_attempt.{name}, EXCLUDED.{name})" for name in _COUNTERS)},
        {", ".join(f"{name} = EXCLUDED.{name}" for name in _NEWER)}
    WHERE NOT journal_attempt.has_ended
    """
)
_ATTEMPT_COLUMNS = """
    j.request_id, j.attempt, j.replica_id, j.epoch, j.has_ended, j.prompt_tokens, j.cached_tokens,
    j.completion_tokens, j.overrun_tokens, j.resumed_from, j.finish_reason, j.queue_ms, j.ttft_ms, j.e2e_ms, j.at
"""
_ATTEMPTS_OF = text(
    f"""
    SELECT {_ATTEMPT_COLUMNS} FROM journal_attempt j WHERE j.request_id = ANY(CAST(:request_ids AS text[]))
    ORDER BY j.request_id, j.attempt
    """
)
# Settled requests that some attempt of the journal is not written for: retries that the gateway saw nothing of.
_UNWRITTEN = text(
    f"""
    SELECT {_ATTEMPT_COLUMNS}, s.tenant_id,
        EXISTS (SELECT FROM attempt a WHERE a.request_id = j.request_id AND a.attempt > j.attempt) AS was_retried
    FROM journal_attempt j JOIN settled_request s USING (request_id)
    WHERE j.matched_at IS NULL AND j.has_ended AND NOT s.is_provisional
        AND j.read_at < now() - make_interval(secs => :lag_s)
        AND NOT EXISTS (SELECT FROM attempt a WHERE a.request_id = j.request_id AND a.attempt = j.attempt)
    ORDER BY j.request_id, j.attempt LIMIT :limit
    """
)
_WRITE_UNBILLED = text(
    f"""{insert_recordset(Attempt, "attempts", skip=("recorded_at",))} ON CONFLICT (request_id, attempt) DO NOTHING"""
)
# Ended for the engine for a while, but open in the ledger, or settled only provisionally. What the ledger has never
# heard of cannot be settled, only counted: it must not stand before what can be.
_UNSETTLED = text(
    """
    SELECT j.request_id FROM journal_attempt j
    LEFT JOIN settled_request s USING (request_id)
    WHERE j.matched_at IS NULL AND (s.is_provisional
        OR (s.request_id IS NULL AND EXISTS (SELECT FROM hold h WHERE h.request_id = j.request_id)))
    GROUP BY j.request_id
    HAVING bool_and(j.has_ended) AND max(j.read_at) < now() - make_interval(
        secs => CASE WHEN bool_or(s.is_provisional) THEN CAST(:provisional_lag_s AS double precision)
            ELSE CAST(:open_lag_s AS double precision) END)
    ORDER BY j.request_id LIMIT :limit
    """
)


async def replicas(connection: WriteConnection) -> list[ReplicaRef]:
    rows = await connection.execute(_REPLICAS)
    return [ReplicaRef(ReplicaId(row[0]), PoolId(row[1]), *row[2:]) for row in rows]


async def cursor_of(connection: WriteConnection, replica_id: ReplicaId) -> str | None:
    return (await connection.execute(_CURSOR, {"replica_id": replica_id})).scalar_one_or_none()


async def save_page(
    connection: WriteConnection, replica_id: ReplicaId, cursor: str | None, attempts: Sequence[Evidence]
) -> None:
    """The page's attempts and the cursor behind it, in one transaction: a page is neither lost nor half read.
    None leaves the cursor as it is: the page did not come from where the cursor points."""
    if attempts:
        document = msgspec.json.encode(attempts).decode()
        await connection.execute(_SAVE_ATTEMPTS, {"attempts": document})
        epochs = sorted({one.epoch for one in attempts})
        await connection.execute(_SAVE_EPOCHS, {"replica_id": replica_id, "epochs": epochs})
    if cursor is not None:
        await connection.execute(_SAVE_CURSOR, {"replica_id": replica_id, "cursor": cursor})


async def attempts_of(
    connection: WriteConnection, request_ids: Collection[RequestId]
) -> dict[RequestId, list[Evidence]]:
    rows = await connection.execute(_ATTEMPTS_OF, {"request_ids": list(request_ids)})
    found: dict[RequestId, list[Evidence]] = {}
    for row in rows:
        found.setdefault(RequestId(row.request_id), []).append(Evidence(*row))
    return found


async def unsettled_requests(
    connection: WriteConnection, provisional_lag_s: float, open_lag_s: float, limit: int
) -> list[RequestId]:
    rows = await connection.execute(
        _UNSETTLED, {"provisional_lag_s": provisional_lag_s, "open_lag_s": open_lag_s, "limit": limit}
    )
    return [RequestId(row[0]) for row in rows]


async def write_unbilled(connection: WriteConnection, lag_s: float, limit: int) -> int:
    """Attempts that only the journal knows, of requests that are settled: unbilled, as retries or errors of ours."""
    rows = await connection.execute(_UNWRITTEN, {"lag_s": lag_s, "limit": limit})
    found = [_unbilled_row(Evidence(*row[:-2]), row[-2], was_retried=row[-1]) for row in rows]
    if found:
        await connection.execute(_WRITE_UNBILLED, {"attempts": msgspec.json.encode(found).decode()})
    return len(found)


def _unbilled_row(one: Evidence, tenant_id: str, *, was_retried: bool) -> dict[str, Any]:
    return {
        "request_id": one.request_id,
        "attempt": one.attempt,
        "tenant_id": tenant_id,
        "replica_id": one.replica_id,
        "engine_epoch": one.epoch,
        "prompt_tokens": one.prompt_tokens,
        "cached_tokens": one.cached_tokens,
        "completion_tokens": one.completion_tokens,
        "overrun_tokens": one.overrun_tokens,
        "billed_prompt_tokens": 0,
        "billed_completion_tokens": 0,
        "unbilled_reason": "retry" if was_retried else "our_error",
        "resumed_from": one.resumed_from,
        "finish_reason": one.finish_reason,
    }
