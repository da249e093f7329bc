"""Money: integer nano-USD, one rounding rule, and how an amount is written for people.

The rule: what a number of tokens costs is rounded down to a whole nano-USD. Nobody is ever charged more than
tokens times price, and the bound of a sum is never below the sum of its rounded parts, so a hold computed from
maxima covers whatever is settled within them. Where prices come from is not known here.
"""

from decimal import Decimal

__all__ = ["NANOUSD_PER_USD", "TOKENS_MAX", "cost_nanousd", "format_usd", "nanousd_from_usd"]

NANOUSD_PER_USD = 1_000_000_000
TOKENS_MAX = 1_000_000_000
"""Of one component of one request."""


def cost_nanousd(tokens: int, nanousd_per_token: Decimal) -> int:
    """What `tokens` cost. Exact up to the rounding: 9 digits of tokens times 18 of price fit a Decimal's 28."""
    assert 0 <= tokens <= TOKENS_MAX, f"{tokens} tokens"
    assert nanousd_per_token >= 0, f"a price is not negative: {nanousd_per_token}"
    return int(tokens * nanousd_per_token)


def nanousd_from_usd(usd: Decimal) -> int:
    """An amount given in USD by a person; more precise than a nano-USD is an error, not a rounding."""
    amount = usd * NANOUSD_PER_USD
    if amount != amount.to_integral_value():
        raise ValueError(f"{usd} USD is not a whole number of nano-USD")
    return int(amount)


def format_usd(nanousd: int) -> str:
    """`$0.000123`: at least two decimals, at most nine, none of them lost."""
    sign = "-" if nanousd < 0 else ""
    whole, fraction = divmod(abs(nanousd), NANOUSD_PER_USD)
    decimals = f"{fraction:09d}".rstrip("0").ljust(2, "0")
    return f"{sign}${whole:,}.{decimals}"
