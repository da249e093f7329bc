"""Pricing: the bound covers every charge within the maxima; nothing is priced twice."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from gateway.ledger.pricing import charge, upper_bound_nanousd
from gateway.ledger.types import AttemptRecord, Prices
from tests.gateway.ledger.builders import PRICES, reservation

price = st.decimals(0, Decimal("50000"), places=6)


@given(price, price, price, st.integers(0, 5000), st.integers(0, 5000), st.data())
def test_bound_covers_every_charge(
    input_price: Decimal,
    cached_price: Decimal,
    output_price: Decimal,
    max_prompt: int,
    max_output: int,
    data: st.DataObject,
) -> None:
    prices = Prices(1, 2, 3, input_price, cached_price, output_price)
    prompt = data.draw(st.integers(0, max_prompt))
    record = AttemptRecord.billed(
        0,
        None,
        None,
        prompt_tokens=prompt,
        cached_tokens=data.draw(st.integers(0, prompt)),
        completion_tokens=data.draw(st.integers(0, max_output)),
    )
    bound = upper_bound_nanousd(
        reservation("r", prices=prices, max_prompt_tokens=max_prompt, max_output_tokens=max_output)
    )
    assert charge(prices, [record]).amount_nanousd <= bound


def test_cached_tokens_are_priced_once_and_at_their_own_price() -> None:
    record = AttemptRecord.billed(0, None, None, prompt_tokens=10, cached_tokens=4, completion_tokens=3)
    priced = charge(PRICES, [record])
    assert (priced.prompt_uncached_tokens, priced.prompt_cached_tokens, priced.completion_tokens) == (6, 4, 3)
    assert (priced.input_nanousd, priced.cached_input_nanousd, priced.output_nanousd) == (600, 40, 1200)
    assert priced.amount_nanousd == 1840


def test_unbilled_attempts_and_a_resumed_prompt_cost_nothing() -> None:
    retried = AttemptRecord.unbilled(0, None, None, "retry", prompt_tokens=10, completion_tokens=2)
    first = AttemptRecord.billed(1, None, None, prompt_tokens=10, cached_tokens=0, completion_tokens=5)
    resumed = AttemptRecord(
        attempt=2,
        replica_id=None,
        engine_epoch=None,
        prompt_tokens=15,
        cached_tokens=15,
        completion_tokens=4,
        billed_prompt_tokens=0,
        billed_completion_tokens=4,
        unbilled_reason="resume_prefill",
        resumed_from=1,
    )
    priced = charge(PRICES, [retried, first, resumed])
    assert (priced.prompt_uncached_tokens, priced.prompt_cached_tokens, priced.completion_tokens) == (
        10,
        0,
        9,
    )
