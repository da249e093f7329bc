"""Journal records become one row per attempt, whatever order and pages they come in."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from gateway.ids import ReplicaId, RequestId
from gateway.ledger.types import Hold
from gateway.reconcile.evidence import is_whole, merge, settlement_from_journal, settlement_without_evidence
from gateway.reconcile.journal import JournalRecord
from tests.gateway.ledger.builders import reservation

NOW = datetime(2026, 11, 29, tzinfo=UTC)
R = ReplicaId("replica_1")
HOLD = Hold(reservation("req_1", estimated_prompt_tokens=12), 50_000, (), NOW, NOW)
STREAM = replace(HOLD, reservation=replace(HOLD.reservation, is_stream=True))


def record(kind: str, completion: int = 0, attempt: int = 0, at_s: int = 0, **more: object) -> JournalRecord:
    return JournalRecord(
        kind,  # type: ignore[arg-type]
        RequestId("req_1"),
        attempt,
        "e1",
        NOW + timedelta(seconds=at_s),
        prompt_tokens=10,
        completion_tokens=completion,
        **more,  # type: ignore[arg-type]
    )


@given(st.lists(st.integers(0, 500), max_size=6).map(sorted), st.integers(500, 600), st.randoms())
def test_counters_only_grow_and_the_end_is_the_last_word(
    progress: list[int], end: int, shuffled: st.DataObject
) -> None:
    records = [
        record("start"),
        *(record("progress", n) for n in progress),
        record("end", end, finish_reason="stop"),
    ]
    shuffled.shuffle(records)  # type: ignore[attr-defined]
    (merged,) = merge(R, records)
    assert (merged.has_ended, merged.completion_tokens, merged.finish_reason) == (True, end, "stop")


def test_attempts_come_in_key_order() -> None:
    merged = merge(R, [record("start", attempt=1), record("start", attempt=0)])
    assert [one.attempt for one in merged] == [0, 1]


def test_the_ending_decides_the_status() -> None:
    for reason, status in (("stop", "ok"), ("length", "ok"), ("abort", "cancelled"), ("error", "partial")):
        attempts = merge(R, [record("end", 5, finish_reason=reason)])
        assert settlement_from_journal(STREAM, attempts).status == status
    assert settlement_from_journal(HOLD, merge(R, [record("progress", 5)])).status == "unknown"


def test_nobody_pays_for_an_engine_that_broke_before_anything_reached_the_caller() -> None:
    """Duty A6: a 5xx before any token costs nothing."""
    broken = merge(R, [record("end", 0, finish_reason="error")])
    for hold, attempts in ((STREAM, broken), (HOLD, merge(R, [record("end", 5, finish_reason="error")]))):
        settled = settlement_from_journal(hold, attempts)
        assert (settled.status, settled.attempts[0].unbilled_reason) == ("error", "our_error")
        assert settled.attempts[0].billed_prompt_tokens == settled.attempts[0].billed_completion_tokens == 0


def test_nobody_pays_for_an_answer_that_was_given_up_before_its_first_token() -> None:
    """As when the gateway lives to settle it."""
    settled = settlement_from_journal(STREAM, merge(R, [record("end", 0, finish_reason="abort")]))
    assert (settled.status, settled.attempts[0].unbilled_reason) == ("cancelled", "after_cancel")
    assert settled.attempts[0].billed_prompt_tokens == 0
    settled = settlement_from_journal(STREAM, merge(R, [record("end", 1, finish_reason="abort")]))
    assert (settled.status, settled.attempts[0].billed_prompt_tokens) == ("cancelled", 10)


def test_where_it_was_resumed_is_passed_on() -> None:
    for reason in ("stop", "error"):
        attempts = merge(R, [record("start", resumed_from=3), record("end", 5, finish_reason=reason)])
        assert settlement_from_journal(HOLD, attempts).attempts[0].resumed_from == 3


def test_an_answer_that_was_continued_is_paid_once() -> None:
    """The second engine read ten tokens of prompt and three of output again; the third one never came to work."""
    resumed = replace(record("end", 4, attempt=2, resumed_from=0, finish_reason="stop"), prompt_tokens=13)
    lost = replace(record("end", 0, attempt=1, resumed_from=0, finish_reason="error"), prompt_tokens=13)
    attempts = merge(R, [record("end", 5, finish_reason="error"), lost, resumed])
    assert is_whole(attempts)
    assert not is_whole(attempts[1:])
    settled = settlement_from_journal(STREAM, attempts)
    assert [(one.billed_prompt_tokens, one.billed_completion_tokens) for one in settled.attempts] == [
        (10, 3),
        (0, 0),
        (0, 4),
    ]
    assert [one.unbilled_reason for one in settled.attempts] == ["retry", "retry", "resume_prefill"]
    assert settled.status == "ok"


def test_it_happened_when_the_engine_says() -> None:
    attempts = merge(R, [record("end", 5, at_s=7, finish_reason="stop", ttft_ms=3, e2e_ms=9)])
    settled = settlement_from_journal(HOLD, attempts)
    assert settled.occurred_at == NOW + timedelta(seconds=7)
    assert (settled.timings.ttft_ms, settled.timings.e2e_ms) == (3, 9)


def test_without_evidence_the_prompt_is_charged_only_if_it_may_have_run() -> None:
    ran = settlement_without_evidence(HOLD, NOW, may_have_run=True)
    assert (ran.status, ran.is_provisional, ran.attempts[0].billed_prompt_tokens) == ("unknown", True, 12)
    never = settlement_without_evidence(HOLD, NOW, may_have_run=False)
    assert (never.status, never.is_provisional, never.attempts) == ("error", True, ())
