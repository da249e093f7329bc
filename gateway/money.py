"""Money: integer nano-USD, one rounding rule, and how an amount is written for people.

The rule: what a number of tokens costs is rounded down to a whole nano-USD. Nobody is ever charged more than
tokens times price, and the bound of a sum is never below the sum of its rounded parts, so a hold computed from
maxima covers whatever is settled within them. Where prices come from is not known here.
"""

from decimal import Decimal

__all__ = ["NANOUSD_PER_CENT", "NANOUSD_PER_USD", "TOKENS_MAX", "cost_nanousd", "decimal_usd", "format_usd"]

NANOUSD_PER_USD = 1_000_000_000
NANOUSD_PER_CENT = NANOUSD_PER_USD // 100
TOKENS_MAX = 1_000_000_000
"""Of one component of one attempt; whoever says more of it counts no tokens."""
_SUM_MAX = 9 * TOKENS_MAX
"""Of the attempts that worked on one answer."""


def cost_nanousd(tokens: int, nanousd_per_token: Decimal) -> int:
    """What `tokens` cost. Exact up to the rounding: 10 digits of tokens times 18 of price fit a Decimal's 28."""
    assert 0 <= tokens <= _SUM_MAX, f"{tokens} tokens"
    assert nanousd_per_token >= 0, f"a price is not negative: {nanousd_per_token}"
    return int(tokens * nanousd_per_token)


def format_usd(nanousd: int) -> str:
    """`$0.000123`: at least two decimals, at most nine, none of them lost."""
    sign = "-" if nanousd < 0 else ""
    whole, fraction = divmod(abs(nanousd), NANOUSD_PER_USD)
    decimals = f"{fraction:09d}".rstrip("0").ljust(2, "0")
    return f"{sign}${whole:,}.{decimals}"


def decimal_usd(nanousd: int) -> str:
    """`0.000123`: US dollars as a JSON number, every digit there and none added."""
    sign = "-" if nanousd < 0 else ""
    whole, fraction = divmod(abs(nanousd), NANOUSD_PER_USD)
    return f"{sign}{whole}.{fraction:09d}".rstrip("0").rstrip(".")
