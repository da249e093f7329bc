"""engine.bench.soak against a real engine of a tiny model, and against one that fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.bench.asks import Sizes
from engine.bench.client import Target
from engine.bench.soak import growth, soak
from tests.engine.test_core_process import serving
from tests.fakes.engine import FakeEngine
from tests.fakes.script import BROKEN, Script
from tests.models import write_tiny_llama

SIZES = Sizes(longest_prompt=60, longest_answer=12, vocab=200)


async def test_a_sound_engine_has_no_faults_and_ends_idle(tmp_path: Path) -> None:
    async with serving(write_tiny_llama(tmp_path / "model"), "--max-model-len", "128") as engine:
        seen = await soak(Target(f"{engine.url}/v1", "m"), 3.0, 5, 6, SIZES, engine.process.pid)
    assert seen.faults == {}
    assert seen.completed > 5
    assert seen.left > 0
    assert seen.tokens > 0
    assert seen.memory[0][1]["host"] > 100 << 20, (
        "the core and the API process have torch and a model in memory"
    )


async def test_refusals_and_streams_without_an_end_are_faults() -> None:
    async with FakeEngine() as engine:
        engine.script(Script(refuse=BROKEN))
        engine.default = Script(tokens=("a ", "b "), fail_after=1)
        target = Target(f"{engine.url}/v1", engine.model, engine.api_key)
        seen = await soak(target, 1.0, 5, 2, SIZES, os.getpid(), idle_within_s=0)
    assert any("not idle" in fault for fault in seen.faults), "no metrics say that it is"
    assert any(fault.startswith("500") for fault in seen.faults)
    assert any("choices instead of" in fault for fault in seen.faults)


def test_growth_is_the_slope_of_the_last_half() -> None:
    rising = [(60.0 * minute, {"host": 1000 + 10 * minute}) for minute in range(10)]
    assert growth(rising, "host") == pytest.approx(10 / 1070)
    filled = [(60.0 * minute, {"host": min(1000, 300 * minute)}) for minute in range(10)]
    assert growth(filled, "host") == 0
