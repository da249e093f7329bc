"""The FakeEngine answers every contract fixture: what the gateway's tests rely on is the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.contract.runner import Fixture, TargetUrl, fixtures, match, replay
from tests.fakes.engine import FakeEngine

ABLE = frozenset({"embeddings", "internal", "stream_usage"})


@pytest.fixture
async def target() -> AsyncIterator[TargetUrl]:
    async with FakeEngine() as engine:
        yield TargetUrl(engine.url, engine.api_key, engine.model)


@pytest.mark.parametrize("fixture", fixtures(ABLE), ids=lambda fixture: fixture.name)
async def test_fixture(fixture: Fixture, target: TargetUrl) -> None:
    await replay(fixture, target)
    assert fixture.needs <= ABLE


@pytest.mark.parametrize(
    ("value", "pattern"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": "<any>"}),
        ({"a": 1}, {"a": "<absent>"}),
        ([1, 2], [1]),
        (True, "<int>"),
        ("", "<str>"),
        (0, "<positive>"),
    ],
)
def test_patterns_refuse(value: object, pattern: object) -> None:
    with pytest.raises(AssertionError):
        match(value, pattern, "m", "value")
