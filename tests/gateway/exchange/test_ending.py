"""How an ending becomes a settlement: the engine's word first, else what reached the client, provisionally."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from gateway.exchange.ending import Ending, settlement_of
from gateway.exchange.state import Attempt, Exchange
from gateway.ids import KeyId, PoolId, ReplicaId, RequestId, RouteId, TenantId
from gateway.ledger.types import Hold, Prices, Reservation
from gateway.routing.breaker import Breaker, BreakerRules
from gateway.routing.prompt import Prompt
from gateway.routing.replicas import LiveReplica
from gateway.routing.target import ReplicaRow, Target
from gateway.routing.work import Work
from gateway.tenancy.principal import Principal
from gateway.upstream import GenericDialect, NativeDialect
from gateway.upstream.dialect import Figure
from gateway.wire import CHAT, StreamScanner, Usage, parse_generation

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PRICES = Prices(1, 2, 3, Decimal(1), Decimal(1), Decimal(1))
EVENT = b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'


def exchange(estimate: int = 40) -> Exchange:
    reservation = Reservation(
        RequestId("req"), TenantId("t"), KeyId("k"), "m", RouteId("r"), PoolId("p"), CHAT, PRICES, 100, 50,
        is_stream=True, estimated_prompt_tokens=estimate,
    )  # fmt: skip
    request = parse_generation(CHAT, b'{"model": "m", "stream": true, "messages": [{"role": "user"}]}')
    target = Target(RouteId("r"), PoolId("p"), "m", "up", "tollway", "least_loaded", PRICES, 50, NOW)
    principal = Principal(TenantId("t"), KeyId("k"), frozenset())
    ticket: Any = None  # the settlement does not look at it
    hold = Hold(reservation, 150, (), NOW, NOW)
    prompt = Prompt(request, "salt")
    return Exchange(
        RequestId("req"), principal, request, target, ticket, hold, 100, 50, 1, prompt, arrived=10.0
    )


def attempt(number: int = 0, figure: Usage | None = None, events: int = 0) -> Attempt:
    row = ReplicaRow(ReplicaId("r1"), PoolId("p"), "http://e", "e1", "tollway")
    made = Attempt(
        number, LiveReplica(row, Breaker(BreakerRules())), NativeDialect(), None, StreamScanner(True, None), None, "e1",
        Work(0, 10, 0.0, is_waiting=True),
    )  # fmt: skip
    made.figure = Figure(figure) if figure is not None else None
    made.scanner.feed(EVENT * events)
    return made


def test_the_engines_word_is_billed() -> None:
    done = exchange()
    done.attempt, done.first_data_at = attempt(figure=Usage(7, 5, 2, 1), events=5), 10.1
    settled = settlement_of(done, Ending("ok", 10.5), NOW)
    [record] = settled.attempts
    assert (record.billed_prompt_tokens, record.cached_tokens, record.billed_completion_tokens) == (7, 2, 5)
    assert (settled.status, settled.reasoning_tokens, settled.is_provisional) == ("ok", 1, False)
    assert (settled.timings.ttft_ms, settled.timings.e2e_ms, settled.timings.tpot_us) == (100, 500, 100_000)


def test_without_it_what_reached_the_client_is_billed_provisionally() -> None:
    done = exchange()
    done.attempt = attempt(events=3)
    settled = settlement_of(done, Ending("partial", 11.0, "server_error"), NOW)
    [record] = settled.attempts
    assert (record.billed_prompt_tokens, record.billed_completion_tokens) == (40, 3)
    assert settled.is_provisional


@pytest.mark.parametrize(("figure", "provisional"), [(Usage(7, 0), False), (None, True)])
def test_leaving_before_the_first_token_costs_nothing(figure: Usage | None, provisional: bool) -> None:
    done = exchange()
    done.attempt = attempt(figure=figure)
    settled = settlement_of(done, Ending("cancelled", 11.0), NOW)
    [record] = settled.attempts
    assert (record.billed_prompt_tokens, record.billed_completion_tokens) == (0, 0)
    assert record.unbilled_reason == "after_cancel"
    assert settled.is_provisional is provisional


def test_our_errors_and_retries_are_written_and_not_billed() -> None:
    done = exchange()
    refused = attempt(1)
    refused.did_nothing()
    done.set_aside = [attempt(0, Usage(7, 2)), refused]
    done.attempt = attempt(2, Usage(7, 1))
    settled = settlement_of(done, Ending("error", 11.0, "timeout", "our_error"), NOW)
    assert [record.unbilled_reason for record in settled.attempts] == ["retry", "retry", "our_error"]
    assert [record.unbilled_tokens for record in settled.attempts] == [9, 0, 8]
    assert all(record.billed_prompt_tokens == 0 for record in settled.attempts)
    assert not settled.is_provisional


def test_what_an_engine_never_told_is_left_to_its_journal() -> None:
    """A row of zeros would contradict the journal, which says later what the engine had produced."""
    done = exchange()
    done.set_aside, done.attempt = [attempt(0)], attempt(1, Usage(7, 5), events=5)
    assert [record.attempt for record in settlement_of(done, Ending("ok", 11.0), NOW).attempts] == [1]
    done.attempt = attempt(1)
    settled = settlement_of(done, Ending("error", 11.0, "timeout", "our_error"), NOW)
    assert (settled.attempts, settled.is_provisional) == ((), False)
    done.attempt.dialect = GenericDialect()
    settled = settlement_of(done, Ending("error", 11.0, "timeout", "our_error"), NOW)
    assert [record.attempt for record in settled.attempts] == [1]


def test_no_attempt_at_all() -> None:
    settled = settlement_of(exchange(), Ending("error", 11.0, "x", "our_error"), NOW)
    assert settled.attempts == ()
