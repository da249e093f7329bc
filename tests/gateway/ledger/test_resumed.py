"""Who is paid when several engines worked on one answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.ledger.resumed import Produced, chain_records


def produced(attempt: int, prompt: int, completion: int, cached: int = 0) -> Produced:
    return Produced(attempt, None, f"e{attempt}", prompt, cached, completion)


def test_the_prompt_is_paid_once_and_the_output_to_those_who_made_it() -> None:
    first, second = chain_records([produced(0, 100, 32, cached=48), produced(2, 130, 20, cached=16)])
    assert (first.billed_prompt_tokens, first.billed_completion_tokens, first.billed_cached_tokens) == (
        100,
        30,
        48,
    )
    assert (first.unbilled_tokens, first.unbilled_reason, first.resumed_from) == (2, "retry", None)
    assert (second.billed_prompt_tokens, second.billed_completion_tokens, second.billed_cached_tokens) == (
        0,
        20,
        0,
    )
    assert (second.unbilled_tokens, second.unbilled_reason, second.resumed_from) == (130, "resume_prefill", 0)


def test_what_an_engine_did_not_write_down_before_it_died_is_not_charged() -> None:
    first, second = chain_records([produced(0, 100, 12), produced(1, 130, 20)])
    assert (first.billed_completion_tokens, first.unbilled_reason) == (12, None)
    assert second.billed_completion_tokens == 20


@given(
    st.integers(1, 500),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5)), min_size=1, max_size=4),
)
def test_however_often_it_was_continued_the_bill_is_the_undisturbed_one(
    prompt: int, parts: list[tuple[int, int]]
) -> None:
    """Each part: tokens that were passed on, and tokens that were made and lost; the last engine lost none."""
    chain, replayed = [], 0
    for attempt, (passed_on, lost) in enumerate(parts):
        is_last = attempt + 1 == len(parts)
        chain.append(produced(attempt, prompt + replayed, passed_on + (0 if is_last else lost)))
        replayed += passed_on
    records = chain_records(chain)
    assert sum(record.billed_prompt_tokens for record in records) == prompt
    assert sum(record.billed_completion_tokens for record in records) == replayed
    for record, one in zip(records, chain, strict=True):
        made = one.prompt_tokens + one.completion_tokens
        assert record.billed_prompt_tokens + record.billed_completion_tokens + record.unbilled_tokens == made
