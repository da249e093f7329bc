"""Money as people type it: US dollars, exact, into the admin API's nano-USD."""

from decimal import Decimal, InvalidOperation

import typer

_NANO = 10**9
_MILLION = 10**6


def nanousd(usd: str) -> int:
    """`12.50` → 12,500,000,000. Refuses what has no whole number of nano-USD."""
    amount = _decimal(usd) * _NANO
    if amount != int(amount):
        raise typer.BadParameter(f"{usd} has more than nine decimals")
    return int(amount)


def nanousd_per_token(usd_per_million: str) -> str:
    """`0.15` a million tokens → 150 nano-USD a token."""
    return f"{(_decimal(usd_per_million) * _NANO / _MILLION).normalize():f}"


def _decimal(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise typer.BadParameter(f"{text!r} is no amount of US dollars") from None
    if not amount.is_finite() or amount < 0:
        raise typer.BadParameter(f"{text!r} is no amount of US dollars")
    return amount
