"""How far journals, attempts and events are from each other: journal = Σ attempt(billed + unbilled), event = Σ billed.

Matching marks what journal and ledger both have and keeps by how much they differ, so that a difference does not
vanish from the metrics because time passes.
"""

from dataclasses import dataclass

from sqlalchemy import text

from gateway.db import WriteConnection

__all__ = ["EpochSums", "differing_tokens", "epoch_sums", "event_drift", "match_attempts", "unmatched_tokens"]

# What an engine computed after an answer's end only its journal says; the gateway has settled without it.
_MATCH = text(
    """
    WITH matched AS (
        UPDATE journal_attempt j SET matched_at = now(),
            drift_tokens = abs(j.prompt_tokens - a.prompt_tokens) + abs(j.completion_tokens - a.completion_tokens)
        FROM attempt a
        WHERE j.matched_at IS NULL AND j.has_ended AND a.request_id = j.request_id AND a.attempt = j.attempt
        RETURNING j.request_id, j.attempt, j.overrun_tokens, j.drift_tokens, j.replica_id, j.epoch,
            j.prompt_tokens + j.completion_tokens AS journalled,
            a.billed_prompt_tokens + a.billed_completion_tokens AS billed,
            a.prompt_tokens + a.completion_tokens AS produced
    ), summed AS (
        UPDATE engine_epoch e SET journalled_tokens = e.journalled_tokens + m.journalled,
            billed_tokens = e.billed_tokens + m.billed, unbilled_tokens = e.unbilled_tokens + m.produced - m.billed
        FROM (SELECT replica_id, epoch, sum(journalled) AS journalled, sum(billed) AS billed, sum(produced) AS produced
            FROM matched GROUP BY 1, 2) m
        WHERE e.replica_id = m.replica_id AND e.epoch = m.epoch
    ), overrun AS (
        UPDATE attempt a SET overrun_tokens = m.overrun_tokens FROM matched m
        WHERE a.request_id = m.request_id AND a.attempt = m.attempt AND a.overrun_tokens <> m.overrun_tokens
    )
    SELECT drift_tokens FROM matched
    """
)
_DIFFERING = text("SELECT coalesce(sum(drift_tokens), 0) FROM journal_attempt WHERE drift_tokens <> 0")
_UNMATCHED = text(
    """
    SELECT coalesce(sum(greatest(0, j.prompt_tokens - coalesce(a.prompt_tokens, 0))
        + greatest(0, j.completion_tokens - coalesce(a.completion_tokens, 0))), 0)
    FROM journal_attempt j LEFT JOIN attempt a USING (request_id, attempt)
    WHERE j.matched_at IS NULL AND j.at < now() - make_interval(secs => :lag_s)
    """
)
# A correction stands where its evidence says, which is as much as a journal's age before what it corrects.
# An event and its attempts are written in one transaction, so every snapshot must show them equal. What is still
# provisional has no attempts yet.
_EVENT_DRIFT = text(
    """
    WITH settled AS (
        SELECT request_id, occurred_at FROM settled_request
        WHERE settled_at > now() - make_interval(secs => :window_s) AND NOT is_provisional
    ), charged AS (
        SELECT e.request_id, sum(e.prompt_uncached_tokens + e.prompt_cached_tokens) AS prompt,
            sum(e.completion_tokens) AS completion
        FROM usage_event e JOIN settled s USING (request_id)
        WHERE e.occurred_at >= (SELECT min(occurred_at) FROM settled) - interval '8 days'
        GROUP BY 1
    ), billed AS (
        SELECT a.request_id, sum(a.billed_prompt_tokens) AS prompt, sum(a.billed_completion_tokens) AS completion
        FROM attempt a JOIN settled s USING (request_id)
        GROUP BY 1
    )
    SELECT coalesce(sum(abs(coalesce(c.prompt, 0) - coalesce(b.prompt, 0))
        + abs(coalesce(c.completion, 0) - coalesce(b.completion, 0))), 0)
    FROM charged c FULL JOIN billed b USING (request_id)
    """
)
_EPOCH_SUMS = text(
    """
    SELECT replica_id, epoch, journalled_tokens, billed_tokens, unbilled_tokens FROM engine_epoch ORDER BY 1, 2
    """
)


@dataclass(frozen=True, slots=True)
class EpochSums:
    """One run of one engine's core: tokens of its ended and matched attempts by its journal, and by the ledger."""

    replica_id: str
    epoch: str
    journalled: int
    billed: int
    unbilled: int

    @property
    def is_equal(self) -> bool:
        return self.drift_tokens == 0

    @property
    def drift_tokens(self) -> int:
        return abs(self.journalled - self.billed - self.unbilled)


async def match_attempts(connection: WriteConnection) -> int:
    """Mark what journal and ledger both have; by how many tokens those of now differ."""
    rows = await connection.execute(_MATCH)
    return sum(int(row[0]) for row in rows)


async def differing_tokens(connection: WriteConnection) -> int:
    """By how many tokens matched attempts differ from their journals, ever since these are kept."""
    return int((await connection.execute(_DIFFERING)).scalar_one())


async def unmatched_tokens(connection: WriteConnection, lag_s: float) -> int:
    """Journalled tokens that the ledger does not have, though they are older than the lag. An attempt whose replica
    was drained away before its last record was read is in the ledger by the engine's own word: it is not missing."""
    return int((await connection.execute(_UNMATCHED, {"lag_s": lag_s})).scalar_one())


async def event_drift(connection: WriteConnection, window_s: float) -> int:
    """By how many tokens the events of requests settled within the window differ from their attempts' billed ones."""
    return int((await connection.execute(_EVENT_DRIFT, {"window_s": window_s})).scalar_one())


async def epoch_sums(connection: WriteConnection) -> list[EpochSums]:
    """Of every engine epoch that is remembered. Summed up while matching: it costs a row per epoch to look."""
    rows = await connection.execute(_EPOCH_SUMS)
    return [EpochSums(row[0], row[1], int(row[2]), int(row[3]), int(row[4])) for row in rows]
