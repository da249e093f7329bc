"""The closed loop without HTTP: every request is answered, and every step is counted once."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.bench.offline import main
from tests.models import write_tiny_llama


def test_a_closed_loop_on_the_cpu_counts_every_token_and_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_tiny_llama(tmp_path / "m")
    own = [
        "--num-prompts",
        "5",
        "--random-input-len",
        "70",
        "--random-output-len",
        "4",
        "--max-concurrency",
        "2",
    ]
    engine = ["--model", str(model), "--device", "cpu", "--kv-cache-memory-bytes", "4000000"]
    assert main([*own, *engine]) == 0
    head, *sizes = capsys.readouterr().out.splitlines()
    assert "output tokens/s" in head
    # Two prompts at once (128 tokens and more), later ones alone or beside an answer, and answers alone.
    assert [line.split("+")[0].strip() for line in sizes] == ["0", "64", "128"]
    share = float(head.split("ran ")[1].split("%")[0])
    assert 0 < share <= 100
