"""`python -m engine bench serve` as a command, against a scripted server."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.fakes.engine import FakeEngine
from tests.fakes.script import BROKEN, Script
from tests.tidy.tree import ROOT


async def _bench(engine: FakeEngine, *flags: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "engine", "bench", "serve", "--base-url", f"{engine.url}/v1",
        "--model", engine.model, "--api-key", str(engine.api_key), "--num-prompts", "8", *flags,
        cwd=ROOT, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def test_prints_a_line_and_appends_json(tmp_path: Path) -> None:
    output = tmp_path / "result.jsonl"
    async with FakeEngine() as engine:
        engine.default = Script(tokens=("x ", "y ", "z "))
        flags = ("--max-concurrency", "3", "--clients", "2", "--label", "trial", "--output", str(output))
        status, text = await _bench(engine, *flags)
        assert engine.running_max <= 3
        assert len(engine.requests) == 8
    assert status == 0
    assert text.startswith("trial: 8 ok, 0 failed")
    (line,) = output.read_text().splitlines()
    result = json.loads(line)
    assert result["completed"] == 8
    assert result["settings"]["max_concurrency"] == "3"
    assert "api_key" not in result["settings"]
    assert "output" not in result["settings"]


async def test_open_loop_and_a_failed_request_is_a_failed_run() -> None:
    async with FakeEngine() as engine:
        engine.script(Script(refuse=BROKEN))
        status, text = await _bench(engine, "--request-rate", "200")
    assert status == 1
    assert "7 ok, 1 failed" in text
    assert "first error: 500" in text
