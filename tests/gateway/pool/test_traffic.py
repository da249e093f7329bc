"""What a pool may say of its traffic."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gateway.pool.models import Pool
from gateway.pool.traffic import TrafficPolicy


def test_the_other_name_of_least_loaded() -> None:
    assert TrafficPolicy.model_validate({"strategy": "least_conn"}).strategy == "least_loaded"
    assert TrafficPolicy().strategy == "prefix"


@pytest.mark.parametrize(
    "given",
    [
        {"strategy": "random"},
        {"strategy": 1},
        {"total_timeout_s": 0},
        {"keep_alive_s": -1},
        {"first_token_timeout_s": 1e9},
    ],
)
def test_nonsense_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TrafficPolicy.model_validate(given)


def test_each_of_its_fields_is_a_column() -> None:
    assert set(TrafficPolicy.model_fields) <= set(Pool.__table__.columns.keys())
