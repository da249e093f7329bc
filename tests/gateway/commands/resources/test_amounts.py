"""US dollars into nano-USD, exactly."""

from __future__ import annotations

import pytest
import typer

from gateway.commands.resources.amounts import nanousd, nanousd_per_token


def test_amounts_are_exact() -> None:
    assert nanousd("250") == 250_000_000_000
    assert nanousd("0.1") == 100_000_000
    assert nanousd("0.000000001") == 1
    assert nanousd("123456789012.123456789") == 123_456_789_012_123_456_789


def test_prices_per_million() -> None:
    assert nanousd_per_token("0.15") == "150"
    assert nanousd_per_token("0.0375") == "37.5"
    assert nanousd_per_token("1000") == "1000000"
    assert nanousd_per_token("0") == "0"


@pytest.mark.parametrize("wrong", ["", "ten", "-1", "nan", "Infinity", "1e-10", "1,5"])
def test_what_is_no_amount(wrong: str) -> None:
    with pytest.raises(typer.BadParameter):
        nanousd(wrong)
