"""What a request may cost at most, and what it did cost. Pure; knows no database, clock or tenant."""

from collections.abc import Iterable

from gateway.ledger.types import AttemptRecord, Charge, Prices, Reservation
from gateway.money import cost_nanousd

__all__ = ["charge", "upper_bound_nanousd"]


def upper_bound_nanousd(reservation: Reservation) -> int:
    """prompt maximum × the dearer of its two prices + output maximum × its price. No charge within the maxima is
    above it, whatever part of the prompt turns out to be cached (money.py says why)."""
    prices = reservation.prices
    dearer = max(prices.input_nanousd, prices.cached_input_nanousd)
    return cost_nanousd(reservation.max_prompt_tokens, dearer) + cost_nanousd(
        reservation.max_output_tokens, prices.output_nanousd
    )


def charge(prices: Prices, attempts: Iterable[AttemptRecord]) -> Charge:
    """The sum of what is billed: cached and uncached prompt tokens are priced once each."""
    prompt = cached = completion = 0
    for record in attempts:
        prompt += record.billed_prompt_tokens
        cached += record.billed_cached_tokens
        completion += record.billed_completion_tokens
    return Charge(
        prompt_uncached_tokens=prompt - cached,
        prompt_cached_tokens=cached,
        completion_tokens=completion,
        input_nanousd=cost_nanousd(prompt - cached, prices.input_nanousd),
        cached_input_nanousd=cost_nanousd(cached, prices.cached_input_nanousd),
        output_nanousd=cost_nanousd(completion, prices.output_nanousd),
    )
