"""The real thing: `python -m engine serve` on tiny models, from the command line to the last byte."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import aiohttp
import openai
import psutil
import pytest

from tests.models import write_tiny_gemma3, write_tiny_llama
from tests.ports import keep_port

ROOT = Path(__file__).resolve().parents[2]
KEY = {"authorization": "Bearer internal"}
START_S = 300.0
"""A start, or an end, takes ten seconds; on a machine that has twenty other things to do, minutes."""
KERNELS_GROWTH_MAX = 48 << 20
"""70 sizes of steps need 350 kernels of 0.3 MiB and more."""
PROMPT = "The keeper of the lighthouse wrote down every ship that passed."


class Engine:
    def __init__(
        self, process: asyncio.subprocess.Process, port: int, session: aiohttp.ClientSession
    ) -> None:
        self.process = process
        self.session = session
        self.url = f"http://127.0.0.1:{port}"
        self.client = openai.AsyncOpenAI(
            base_url=f"http://127.0.0.1:{port}/v1", api_key="internal", max_retries=0
        )

    async def status(self) -> dict[str, Any]:
        async with self.session.get("/internal/status") as answer:
            return await answer.json()

    async def until_ready(self, *, but_not: str | None = None) -> dict[str, Any]:
        async with asyncio.timeout(START_S):
            while True:
                try:
                    found = await self.status()
                    if found["state"] == "ready" and found["epoch"] != but_not:
                        return found
                except aiohttp.ClientError:
                    assert self.process.returncode is None, "the engine ended"
                await asyncio.sleep(0.05)

    async def complete(self, **fields: Any) -> Any:
        values = {"model": "m", "prompt": PROMPT, "max_tokens": 12, "temperature": 0, **fields}
        return await self.client.completions.create(**values)


@asynccontextmanager
async def serving(model: Path, *flags: str, log: Path | None = None) -> AsyncIterator[Engine]:
    """`log`: a file for what the processes write, instead of the test's own output."""
    keeper = keep_port()
    port = keeper.getsockname()[1]
    with log.open("wb") if log is not None else nullcontext() as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "engine", "serve", str(model), "--served-model-name", "m"),
            *("--port", str(port), "--internal-key", "internal", "--drain-grace-s", "0"),
            *("--debug-invariants", "--kv-cache-memory-bytes", str(8 << 20)),
            # A slow machine's lines are no overload to a test that does not mean one; the last of two flags counts.
            *("--queue-deadline-s", "600", *flags),
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=output,
            stderr=output,
        )
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", headers=KEY) as session:
        engine = Engine(process, port, session)
        try:
            await engine.until_ready()
            yield engine
        finally:
            keeper.close()
            await engine.client.close()
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), START_S) == 0


@pytest.mark.parametrize("write", [write_tiny_llama, write_tiny_gemma3])
async def test_a_tiny_model_end_to_end(tmp_path: Path, write: Any) -> None:
    write(tmp_path / "model")
    async with serving(tmp_path / "model", "--journal-dir", str(tmp_path / "journal")) as engine:
        whole = await engine.complete(extra_body={"ignore_eos": True, "return_token_ids": True})
        ids = whole.choices[0].token_ids
        assert len(ids) == whole.usage.completion_tokens == 12
        again = await engine.complete(extra_body={"ignore_eos": True, "return_token_ids": True})
        assert again.choices[0].token_ids == ids
        assert again.usage.prompt_tokens_details.cached_tokens > 0
        stream = await engine.complete(stream=True, extra_body={"ignore_eos": True})
        assert "".join([chunk.choices[0].text async for chunk in stream]) == whole.choices[0].text
        batch = await asyncio.gather(*(engine.complete(extra_body={"ignore_eos": True}) for _ in range(6)))
        assert {answer.choices[0].text for answer in batch} == {whole.choices[0].text}
        drawn = [
            (await engine.complete(temperature=1, seed=5, n=2, extra_body={"ignore_eos": True})).choices
            for _ in range(2)
        ]
        assert [choice.text for choice in drawn[0]] == [choice.text for choice in drawn[1]]
        assert drawn[0][0].text != drawn[0][1].text
        async with engine.session.get("/internal/usage", params={"limit": "1000"}) as answer:
            ends = [r for r in (await answer.json())["records"] if r["kind"] == "end"]
        assert sum(end["completion_tokens"] for end in ends) == 12 * (2 + 1 + 6 + 4)


async def test_steps_of_many_sizes_take_no_memory_for_good(tmp_path: Path) -> None:
    """A kernel is written for every product and number of tokens; only so many are kept."""
    write_tiny_llama(tmp_path / "model")
    async with serving(tmp_path / "model", "--no-enable-prefix-caching") as engine:
        core = psutil.Process((await engine.status())["core_pid"])

        async def grown_by(sizes: range) -> int:
            before = core.memory_info().rss
            for size in sizes:
                await engine.complete(prompt=[9] * size, max_tokens=1)
            return core.memory_info().rss - before

        first = await grown_by(range(100, 130))
        later = await grown_by(range(30, 100))
        assert later < KERNELS_GROWTH_MAX, f"{first >> 20} MiB at first, then {later >> 20} MiB"


async def test_swapped_answers_and_the_gateways_terms_end_to_end(tmp_path: Path) -> None:
    """Eight answers in pages for two or three: all are what they are alone, whatever was promised."""
    write_tiny_llama(tmp_path / "model")
    flags = ("--num-gpu-blocks-override", "24", "--max-model-len", "128", "--kv-cache-dtype", "float32")
    swapping = ("--preemption-mode", "swap", "--kv-offload-gib", "0.05", "--batch-invariant")
    extra = {"ignore_eos": True, "return_token_ids": True}
    terms = {"x-slo-ttft-ms": "500", "x-slo-tpot-ms": "5", "x-max-kv-fraction": "0.9"}
    async with serving(tmp_path / "model", *flags, *swapping) as engine:
        prompts = [f"{number} {PROMPT}"[:40] for number in range(8)]
        alone = [await engine.complete(prompt=prompt, max_tokens=60, extra_body=extra) for prompt in prompts]
        headers = [
            {**terms, "x-gateway-inference-fairness-id": f"id{number % 3}", "x-request-class": kind}
            for number, kind in enumerate(["interactive", "batch"] * 4)
        ]
        together = await asyncio.gather(
            *(
                engine.complete(prompt=prompt, max_tokens=60, extra_body=extra, extra_headers=each)
                for prompt, each in zip(prompts, headers, strict=True)
            )
        )
        assert [answer.choices[0].token_ids for answer in together] == [
            answer.choices[0].token_ids for answer in alone
        ]
        async with engine.session.get("/metrics") as answer:
            lines = (await answer.text()).splitlines()
        figures = dict(line.split("{")[0:1] + line.split("} ")[1:] for line in lines if "} " in line)
        assert float(figures["vllm:num_preemptions_total"]) > 0
        assert float(figures["engine_pages_restored_total"]) > 0
        async with engine.session.get("/load") as answer:
            load = await answer.json()
        assert (load["running"], load["waiting"]) == (0, 0)
        assert load["sustainable_rps"] > 0


async def test_core_killed_under_load(tmp_path: Path) -> None:
    write_tiny_llama(tmp_path / "model")
    async with serving(tmp_path / "model") as engine:
        before = await engine.status()
        os.kill(before["core_pid"], signal.SIGSTOP)  # it has all of them, and will have finished none
        headers = [{"x-gateway-request-id": f"gw-{number}"} for number in range(6)]
        running = [asyncio.create_task(engine.complete(max_tokens=900, extra_headers=one)) for one in headers]
        async with asyncio.timeout(START_S):
            while len((await engine.status())["request_ids"]) < 6:  # noqa: ASYNC110  # asks another process
                await asyncio.sleep(0.01)
        os.kill(before["core_pid"], signal.SIGKILL)
        for outcome in await asyncio.gather(*running, return_exceptions=True):
            assert isinstance(outcome, openai.InternalServerError), outcome
            assert outcome.code == "engine_error"
        after = await engine.until_ready(but_not=before["epoch"])
        assert after["pid"] == before["pid"]
        assert (await engine.complete()).usage.completion_tokens > 0


async def test_settings_that_do_not_fit_end_the_engine(tmp_path: Path) -> None:
    write_tiny_llama(tmp_path / "model")
    for flags in (["--max-model-len", "99999999"], ["--port", "99999999"]):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "engine", "serve", str(tmp_path / "model"), "--port", "0", *flags),
            cwd=ROOT,
            stderr=asyncio.subprocess.PIPE,
        )
        _, errors = await asyncio.wait_for(process.communicate(), START_S)
        assert process.returncode in (1, 2)
        assert b"must be" in errors
