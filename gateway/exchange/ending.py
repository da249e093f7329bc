"""How a request ended → what is written down about it. Pure.

The tenant pays for what the engine itself says it reported; without the engine's word the settlement is
provisional: it charges what reached the client, and the journal may correct it once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gateway.exchange.state import Attempt, Exchange
from gateway.ledger.resumed import Produced, chain_records
from gateway.ledger.types import (
    AttemptRecord,
    Settlement,
    SettlementStatus,
    Timings,
    UnbilledReason,
)
from gateway.upstream.dialect import Figure
from gateway.wire import Usage

__all__ = ["Ending", "known_tokens", "settlement_of", "unbilled_record"]


@dataclass(frozen=True, slots=True)
class Ending:
    """`unbilled`: why nobody pays; None when the tenant pays for what was produced. `release`: no engine took
    the request, so there is nothing to settle."""

    status: SettlementStatus
    at: float
    error_code: str | None = None
    unbilled: UnbilledReason | None = None
    release: bool = False


def settlement_of(exchange: Exchange, ending: Ending, occurred_at: datetime) -> Settlement:
    if exchange.continued:
        return _settlement_of_chain(exchange, ending, occurred_at)
    attempt = exchange.attempt
    records = [unbilled_record(earlier, "retry") for earlier in exchange.set_aside if _is_told(earlier)]
    usage, is_known = None, True
    unbilled = ending.unbilled
    if attempt is not None and ending.status == "cancelled" and _nothing_came(attempt):
        # Gone before the first token. Without the engine's word the journal may still know better.
        unbilled, is_known = "after_cancel", attempt.figure is not None
    if attempt is not None and unbilled is not None:
        if _is_told(attempt) or not is_known:
            records.append(unbilled_record(attempt, unbilled))
    elif attempt is not None:
        usage, is_known = _usage(exchange, attempt)
        records.append(_billed_record(attempt, usage))
    return Settlement(
        hold=exchange.hold,
        status=ending.status,
        occurred_at=occurred_at,
        attempts=tuple(records),
        reasoning_tokens=usage.reasoning_tokens if usage is not None else 0,
        timings=_timings(exchange, ending, usage),
        error_code=ending.error_code,
        is_provisional=not is_known,
    )


def known_tokens(exchange: Exchange) -> int:
    """Of an answer that was continued, before the journals are read."""
    usage = _usage_of_chain(exchange)
    return usage.prompt_tokens + usage.completion_tokens


def _settlement_of_chain(exchange: Exchange, ending: Ending, occurred_at: datetime) -> Settlement:
    """Several engines worked on the answer. By their own records if all can be read; else provisionally, by what the
    last one said of the whole, or what was passed on."""
    chain, usage = exchange.chain, _usage_of_chain(exchange)
    produced = [_produced(one, one.figure) for one in chain if one.figure is not None]
    is_known = len(produced) == len(chain)
    records = [unbilled_record(earlier, "retry") for earlier in exchange.set_aside if _is_told(earlier)]
    records += chain_records(produced) if is_known else [_billed_record(chain[-1], usage)]
    return Settlement(
        hold=exchange.hold,
        status=ending.status,
        occurred_at=occurred_at,
        attempts=tuple(records),
        reasoning_tokens=usage.reasoning_tokens,
        timings=_timings(exchange, ending, usage),
        error_code=ending.error_code,
        is_provisional=not is_known,
    )


def _usage_of_chain(exchange: Exchange) -> Usage:
    told = exchange.chain[-1].scanner.usage
    if told is not None:
        return told
    assert exchange.continuation is not None, "it was continued"
    return Usage(exchange.hold.reservation.fallback_prompt_tokens, len(exchange.continuation.ids))


def _produced(attempt: Attempt, figure: Figure) -> Produced:
    return Produced(
        attempt.number,
        attempt.replica.id,
        attempt.epoch,
        figure.usage.prompt_tokens,
        figure.usage.cached_tokens,
        figure.usage.completion_tokens,
        figure.overrun_tokens,
    )


def unbilled_record(attempt: Attempt, reason: UnbilledReason) -> AttemptRecord:
    usage = attempt.figure.usage if attempt.figure is not None else Usage(0, 0)
    return AttemptRecord.unbilled(
        attempt.number,
        attempt.replica.id,
        attempt.epoch,
        reason,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        completion_tokens=usage.completion_tokens,
    )


def _is_told(attempt: Attempt) -> bool:
    """Whether its row can be written now. An engine that died over it says later, in its journal, what it had
    produced; a row of zeros would contradict that for ever."""
    return attempt.figure is not None or not attempt.dialect.has_journal


def _nothing_came(attempt: Attempt) -> bool:
    produced = (
        attempt.figure.usage.completion_tokens if attempt.figure is not None else attempt.scanner.events
    )
    return produced == 0


def _billed_record(attempt: Attempt, usage: Usage) -> AttemptRecord:
    return AttemptRecord.billed(
        attempt.number,
        attempt.replica.id,
        attempt.epoch,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        completion_tokens=usage.completion_tokens,
        overrun_tokens=attempt.figure.overrun_tokens if attempt.figure is not None else 0,
    )


def _usage(exchange: Exchange, attempt: Attempt) -> tuple[Usage, bool]:
    """The engine's figure, else what is sure: the prompt as estimated, the events that reached the client."""
    if attempt.figure is not None:
        return attempt.figure.usage, True
    return Usage(exchange.hold.reservation.fallback_prompt_tokens, attempt.scanner.events), False


def _timings(exchange: Exchange, ending: Ending, usage: Usage | None) -> Timings:
    e2e_s = ending.at - exchange.arrived
    first = exchange.continued[0] if exchange.continued else exchange.attempt
    queue_ms = first.queue_ms if first is not None else None
    if exchange.first_data_at is None:
        return Timings(queue_ms=queue_ms, e2e_ms=round(e2e_s * 1000))
    ttft_s = exchange.first_data_at - exchange.arrived
    tpot_us = None
    if exchange.request.stream and usage is not None and usage.completion_tokens > 1:
        tpot_us = round((e2e_s - ttft_s) / (usage.completion_tokens - 1) * 1e6)
    return Timings(queue_ms, ttft_ms=round(ttft_s * 1000), e2e_ms=round(e2e_s * 1000), tpot_us=tpot_us)
