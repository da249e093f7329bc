"""Money: rounding down, and amounts for people."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.money import cost_nanousd, decimal_usd, format_usd

tokens = st.integers(0, 9_000_000_000)
prices = st.decimals(0, Decimal("999999999999.999999"), places=6)


@given(tokens, prices)
def test_cost_is_exact_and_rounded_down(count: int, price: Decimal) -> None:
    millionths = int(price.scaleb(6))
    assert cost_nanousd(count, price) == count * millionths // 1_000_000


@given(st.lists(tokens, max_size=5).filter(lambda parts: sum(parts) <= 9_000_000_000), prices)
def test_rounded_parts_never_exceed_the_rounded_whole(parts: list[int], price: Decimal) -> None:
    assert sum(cost_nanousd(part, price) for part in parts) <= cost_nanousd(sum(parts), price)


@pytest.mark.parametrize(
    ("nanousd", "written"),
    [
        (0, "$0.00"),
        (1, "$0.000000001"),
        (1_500_000_000, "$1.50"),
        (-25_000_000, "-$0.025"),
        (1_234_567_000_000_001, "$1,234,567.000000001"),
    ],
)
def test_format_loses_nothing(nanousd: int, written: str) -> None:
    assert format_usd(nanousd) == written
    assert Decimal(written.replace("$", "").replace(",", "")) * 1_000_000_000 == nanousd


def test_decimal_usd_writes_every_digit() -> None:
    assert decimal_usd(0) == "0"
    assert decimal_usd(1) == "0.000000001"
    assert decimal_usd(-1_500_000_000) == "-1.5"
    assert decimal_usd(12_000_000_000) == "12"
    assert decimal_usd(9_223_372_036_854_775_807) == "9223372036.854775807"
