"""From journal records to a settlement. Pure: what was produced, who pays for it, and how the request ended."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gateway.ids import ReplicaId, RequestId
from gateway.ledger.resumed import Produced, chain_records
from gateway.ledger.types import AttemptRecord, Hold, Settlement, SettlementStatus, Timings, UnbilledReason
from gateway.reconcile.journal import JournalRecord

__all__ = ["JournalAttempt", "is_whole", "merge", "settlement_from_journal", "settlement_without_evidence"]

_STATUS: dict[str | None, SettlementStatus] = {
    "stop": "ok",
    "length": "ok",
    "tool_calls": "ok",
    "abort": "cancelled",
    None: "unknown",
}


@dataclass(frozen=True, slots=True)
class JournalAttempt:
    """The newest that a journal says of an attempt."""

    request_id: RequestId
    attempt: int
    replica_id: ReplicaId
    epoch: str
    has_ended: bool
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    overrun_tokens: int
    resumed_from: int | None
    finish_reason: str | None
    queue_ms: int | None
    ttft_ms: int | None
    e2e_ms: int | None
    at: datetime


def merge(replica_id: ReplicaId, records: Iterable[JournalRecord]) -> list[JournalAttempt]:
    """One row per attempt, in key order. Counters only grow, and nothing follows an end."""
    merged: dict[tuple[RequestId, int], JournalAttempt] = {}
    for record in records:
        key = (record.request_id, record.attempt)
        merged[key] = _later(merged.get(key), _attempt(replica_id, record))
    return [merged[key] for key in sorted(merged)]


def settlement_from_journal(hold: Hold, attempts: Sequence[JournalAttempt]) -> Settlement:
    """The last attempt served the caller and is billed, if anybody is to pay for it, with those whose answer it went on
    with; what else came before it was retried."""
    chain = _chain(attempts)
    last, links = chain[-1], {one.attempt for one in chain}
    retried = [_unbilled(one, "retry") for one in attempts if one.attempt not in links]
    reason = None if len(chain) > 1 else _why_unbilled(hold, last)
    if reason is not None:
        served: Sequence[AttemptRecord] = [_unbilled(last, reason)]
    else:
        served = chain_records([_produced(one) for one in chain]) if len(chain) > 1 else [_billed(last)]
    return Settlement(
        hold=hold,
        status=_status(last, reason),
        occurred_at=last.at,
        attempts=tuple(sorted([*retried, *served], key=lambda record: record.attempt)),
        timings=Timings(queue_ms=last.queue_ms, ttft_ms=last.ttft_ms, e2e_ms=last.e2e_ms),
        error_code="gateway_lost",
    )


def settlement_without_evidence(hold: Hold, at: datetime, *, may_have_run: bool) -> Settlement:
    """Provisional: the estimated prompt if an engine that cannot be asked may have had the request, else nothing."""
    assumed = AttemptRecord.billed(
        0,
        None,
        None,
        prompt_tokens=hold.reservation.fallback_prompt_tokens,
        cached_tokens=0,
        completion_tokens=0,
    )
    return Settlement(
        hold=hold,
        status="unknown" if may_have_run else "error",
        occurred_at=at,
        attempts=(assumed,) if may_have_run else (),
        error_code="gateway_lost",
        is_provisional=True,
    )


def _attempt(replica_id: ReplicaId, record: JournalRecord) -> JournalAttempt:
    return JournalAttempt(
        request_id=record.request_id,
        attempt=record.attempt,
        replica_id=replica_id,
        epoch=record.epoch,
        has_ended=record.kind == "end",
        prompt_tokens=record.prompt_tokens,
        cached_tokens=record.cached_tokens,
        completion_tokens=record.completion_tokens,
        overrun_tokens=record.overrun_tokens,
        resumed_from=record.resumed_from,
        finish_reason=record.finish_reason,
        queue_ms=record.queue_ms,
        ttft_ms=record.ttft_ms,
        e2e_ms=record.e2e_ms,
        at=record.at,
    )


def _later(known: JournalAttempt | None, new: JournalAttempt) -> JournalAttempt:
    if known is None or new.has_ended:
        return _grown(known, new)
    return known if known.has_ended else _grown(known, new)


def _grown(known: JournalAttempt | None, new: JournalAttempt) -> JournalAttempt:
    if known is None:
        return new
    return replace(
        new,
        prompt_tokens=max(known.prompt_tokens, new.prompt_tokens),
        cached_tokens=max(known.cached_tokens, new.cached_tokens),
        completion_tokens=max(known.completion_tokens, new.completion_tokens),
        overrun_tokens=max(known.overrun_tokens, new.overrun_tokens),
        resumed_from=known.resumed_from if new.resumed_from is None else new.resumed_from,
    )


def is_whole(attempts: Iterable[JournalAttempt]) -> bool:
    """Whether every attempt is there whose answer another one went on with."""
    numbers = {one.attempt for one in attempts}
    return all(one.resumed_from is None or one.resumed_from in numbers for one in attempts)


def _chain(attempts: Sequence[JournalAttempt]) -> list[JournalAttempt]:
    """The last attempt, after all those whose answer it goes on with."""
    by_number = {one.attempt: one for one in attempts}
    link: JournalAttempt | None = by_number[max(by_number)]
    chain: list[JournalAttempt] = []
    while link is not None:
        chain.append(link)
        before = link.resumed_from
        link = by_number.get(before) if before is not None and before < link.attempt else None
    return chain[::-1]


def _produced(one: JournalAttempt) -> Produced:
    return Produced(
        one.attempt,
        one.replica_id,
        one.epoch,
        one.prompt_tokens,
        one.cached_tokens,
        one.completion_tokens,
        one.overrun_tokens,
        one.finish_reason,
    )


def _billed(one: JournalAttempt) -> AttemptRecord:
    record = AttemptRecord.billed(
        one.attempt,
        one.replica_id,
        one.epoch,
        prompt_tokens=one.prompt_tokens,
        cached_tokens=one.cached_tokens,
        completion_tokens=one.completion_tokens,
        overrun_tokens=one.overrun_tokens,
        finish_reason=one.finish_reason,
    )
    return replace(record, resumed_from=one.resumed_from)


def _status(last: JournalAttempt, reason: UnbilledReason | None) -> SettlementStatus:
    if not last.has_ended:
        return "unknown"
    return "error" if reason == "our_error" else _STATUS.get(last.finish_reason, "partial")


def _why_unbilled(hold: Hold, last: JournalAttempt) -> UnbilledReason | None:
    """As the gateway itself would have settled: nobody pays for an engine's error before anything could reach the
    caller, nor for an answer that was given up before its first token."""
    if last.has_ended and last.finish_reason == "error" and not _reached_caller(hold, last):
        return "our_error"
    if last.has_ended and last.finish_reason == "abort" and not last.completion_tokens:
        return "after_cancel"
    return None


def _reached_caller(hold: Hold, one: JournalAttempt) -> bool:
    """A stream shows its tokens as they come; any other answer is shown whole or not at all."""
    return hold.reservation.is_stream and one.completion_tokens > 0


def _unbilled(one: JournalAttempt, reason: UnbilledReason) -> AttemptRecord:
    return replace(
        AttemptRecord.unbilled(
            one.attempt,
            one.replica_id,
            one.epoch,
            reason,
            prompt_tokens=one.prompt_tokens,
            cached_tokens=one.cached_tokens,
            completion_tokens=one.completion_tokens,
            finish_reason=one.finish_reason,
        ),
        overrun_tokens=one.overrun_tokens,
        resumed_from=one.resumed_from,
    )
