"""A few hundred random requests in every run; 20,000 with `make fuzz`."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from schemathesis import GenerationMode

from tests.fuzz.described import ask_described
from tests.fuzz.engine import fuzzed_engine
from tests.fuzz.requests import draw
from tests.fuzz.run import fuzz

SEED, COUNT = 20_261_130, 200
DESCRIBED = 50


@pytest.mark.timeout(1800)  # hostile grammars may use the time that they are allowed
async def test_no_request_harms_an_engine(tmp_path: Path) -> None:
    """Whatever is sent: an answer of the right shape, the same core at the end, and all its pages free."""
    async with fuzzed_engine(tmp_path) as engine:
        before = await engine.status()
        report = await fuzz(engine.session, SEED, COUNT)
        assert report.faults == [], f"seed {SEED}"
        assert report.count(200) > COUNT / 8
        assert report.count(400) > COUNT / 8
        assert report.statuses["/v1/embeddings", 200] > 0
        assert report.statuses["/internal/resume", 200] > 0
        assert len(report.plain) == 1
        for mode in GenerationMode:
            described = await asyncio.to_thread(ask_described, engine.url, SEED, DESCRIBED, mode=mode)
            assert described.faults == [], f"seed {SEED}"
            assert described.statuses.total() > DESCRIBED / 2
        after = await engine.status()
        assert (after["epoch"], after["running"], after["waiting"]) == (before["epoch"], 0, 0)


def test_a_seed_and_a_number_name_a_request() -> None:
    assert draw(random.Random("1/2")) == draw(random.Random("1/2"))
    assert len({draw(random.Random(f"1/{number}")).body for number in range(100)}) > 80
