"""Numbers between bounds, digit by digit.

Integers have up to 18 digits, and so have the two sides of a decimal point: an answer cannot lose itself in digits.
Bounded numbers are written without an exponent.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

from engine.text.schema.ebnf import alternatives, literal

DIGITS = 18
_MOST = 10**DIGITS - 1
_FINER = 2
"""Digits after the point beyond those of the bounds."""
_ANY_FRACTION = f'("." [0-9]{{1,{DIGITS}}})?'

INTEGER = f'"-"? ("0" | [1-9] [0-9]{{0,{DIGITS - 1}}})'
NUMBER = f"{INTEGER} {_ANY_FRACTION} ([eE] [+\\-]? [0-9]{{1,2}})?"


def integer_between(low: int | None, high: int | None) -> str | None:
    """EBNF of the integers from `low` to `high`; None if there is none."""
    if low is None and high is None:
        return INTEGER
    first = -_MOST if low is None else max(low, -_MOST)
    last = _MOST if high is None else min(high, _MOST)
    options = _naturals(max(first, 0), last)
    options += [f'"-" {option}' for option in _naturals(max(1, -last), -first)]
    return alternatives(options) if options else None


def number_between(
    low: float | None, high: float | None, *, above: bool = False, below: bool = False
) -> str | None:
    """EBNF of the numbers from `low` (excluded if `above`) to `high` (excluded if `below`); None if there is none."""
    if low is None and high is None:
        return NUMBER
    with localcontext() as context:
        context.prec = 100
        first = Decimal(-_MOST) if low is None else max(Decimal(repr(low)), Decimal(-_MOST))
        last = Decimal(_MOST) if high is None else min(Decimal(repr(high)), Decimal(_MOST))
        options = []
        if last >= 0:
            options += _decimals(max(first, Decimal(0)), last, above and first >= 0, below)
        if first < 0:
            # Nothing is written as minus zero.
            options += [
                f'"-" {option}'
                for option in _decimals(max(-last, Decimal(0)), -first, last >= 0 or below, above)
            ]
    return alternatives(options) if options else None


def _naturals(low: int, high: int) -> list[str]:
    """One option for each number of digits."""
    options = []
    for length in range(len(str(low)), len(str(max(high, 0))) + 1):
        first, last = max(low, 10 ** (length - 1) if length > 1 else 0), min(high, 10**length - 1)
        if first <= last:
            options.append(_between(str(first), str(last)))
    return options


def _decimals(low: Decimal, high: Decimal, above: bool, below: bool) -> list[str]:
    """Of numbers that are not negative: those strictly between the whole parts of the bounds, and those that share
    a whole part with one of them."""
    if low > high:
        return []
    first, last = math.floor(low), math.floor(high)
    options = [f"{option} {_ANY_FRACTION}" for option in _naturals(first + 1, last - 1)]
    for whole in dict.fromkeys((first, last)):
        options += _fractions(
            whole, low if whole == first else Decimal(whole), high, above and whole == first, below
        )
    return options


def _fractions(whole: int, low: Decimal, high: Decimal, above: bool, below: bool) -> list[str]:
    """Numbers with this whole part: by itself, and with up to as many digits as the bounds have and a few more."""
    options = []
    if low == whole and not above and (whole < high or (whole == high and not below)):
        options.append(literal(str(whole)))
    for places in range(1, min(DIGITS, max(_places(low), _places(high)) + _FINER) + 1):
        unit = 10**places
        start = math.ceil((low - whole) * unit)
        end = min(unit - 1, math.floor((high - whole) * unit))
        if above and (low - whole) * unit == start:
            start += 1
        if below and (high - whole) * unit == end:
            end -= 1
        if start <= end:
            digits = _between(f"{start:0{places}}", f"{end:0{places}}")
            options.append(f'{literal(str(whole))} "." {digits}')
    return options


def _places(value: Decimal) -> int:
    exponent = value.normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


def _between(low: str, high: str) -> str:
    """Strings of digits, all of the same length, from `low` to `high`."""
    if low == high:
        return literal(low)
    if low[0] == high[0]:
        return f"{literal(low[0])} {_between(low[1:], high[1:])}"
    if set(low[1:]) <= {"0"} and set(high[1:]) <= {"9"}:
        return f"{_digit(int(low[0]), int(high[0]))}{_any(len(low) - 1)}"
    options = [f"{literal(low[0])} {_between(low[1:], '9' * (len(low) - 1))}"]
    if int(low[0]) + 1 <= int(high[0]) - 1:
        options.append(f"{_digit(int(low[0]) + 1, int(high[0]) - 1)}{_any(len(low) - 1)}")
    options.append(f"{literal(high[0])} {_between('0' * (len(high) - 1), high[1:])}")
    return alternatives(options)


def _digit(first: int, last: int) -> str:
    return f"[{first}-{last}]" if first < last else literal(str(first))


def _any(count: int) -> str:
    return f" [0-9]{{{count}}}" if count else ""
