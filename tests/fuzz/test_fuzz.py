"""A few hundred random requests in every run; 20,000 with `make fuzz`."""

from __future__ import annotations

import random
from pathlib import Path

from tests.engine.test_core_process import serving
from tests.fuzz.requests import draw
from tests.fuzz.run import fuzz
from tests.models import write_tiny_llama

SEED, COUNT = 20_261_130, 300


async def test_no_request_harms_an_engine(tmp_path: Path) -> None:
    """Whatever is sent: an answer of the right shape, the same core at the end, and all its pages free."""
    model = write_tiny_llama(tmp_path / "model")
    async with serving(model, "--journal-dir", str(tmp_path / "journal")) as engine:
        before = await engine.status()
        report = await fuzz(engine.session, SEED, COUNT)
        assert report.faults == [], f"seed {SEED}"
        assert report.statuses[200] > COUNT / 8
        assert report.statuses[400] > COUNT / 8
        assert len(report.plain) == 1
        after = await engine.status()
        assert (after["epoch"], after["running"], after["waiting"]) == (before["epoch"], 0, 0)


def test_a_seed_and_a_number_name_a_request() -> None:
    assert draw(random.Random("1/2")) == draw(random.Random("1/2"))
    assert len({draw(random.Random(f"1/{number}")).body for number in range(100)}) > 90
