"""Our engine against the contract fixtures (with a scripted core: the contract is about the HTTP surface)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.runner import Fixture, TargetUrl, fixtures, replay
from tests.engine.server.conftest import INTERNAL_KEY, MODEL, running_server
from tests.tiny_tokenizer import write_llama_tokenizer

ABLE_TO = frozenset({"embeddings", "internal", "stream_usage"})


@pytest.mark.parametrize("fixture", fixtures(ABLE_TO), ids=lambda fixture: fixture.name)
async def test_fixture(fixture: Fixture, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    write_llama_tokenizer(tmp_path / "model")
    async with running_server(tmp_path / "model", tmp_path / "journal") as server:
        await replay(fixture, TargetUrl(server.url, INTERNAL_KEY, MODEL))
        assert server.services.bridge.num_live == 0
