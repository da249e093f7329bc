"""Callers that leave a whole engine, in every phase of their requests. (Through the gateway: tests/gateway.)"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

from tests.engine.leaving import (
    CHUNK,
    FLAGS,
    PHASES,
    PREFILL_STEPS,
    Door,
    Phase,
    leave,
    until_idle,
    write_model,
)
from tests.engine.test_core_process import PROMPT, Engine, serving
from tests.models import write_tiny_llama


async def test_who_leaves_is_no_work_any_more(tmp_path: Path) -> None:
    """Duty engine-2: queued, in a long prompt's chunks, in decode; streaming or not: pages back, the journal right."""
    model = write_model(tmp_path / "model")
    async with serving(model, "--journal-dir", str(tmp_path / "journal"), *FLAGS) as engine:
        for number, (phase, stream) in enumerate([(p, s) for p in PHASES for s in (True, False)]):
            headers = {"authorization": "Bearer internal", "x-gateway-request-id": f"gw-{number}"}
            steps = await _steps(engine)
            end = await leave(engine, Door(engine.url, headers), phase, stream=stream)
            check(end, phase)
            if phase == "prefill":
                taken = await _steps(engine) - steps
                assert taken < PREFILL_STEPS, "the rest of the prompt was computed for nobody"
            assert end["request_id"] == f"gw-{number}"
        assert (await engine.complete(max_tokens=4)).usage.completion_tokens == 4


def check(end: dict[str, Any], phase: Phase) -> None:
    """The record of a request that was left in that phase."""
    assert end["finish_reason"] == "abort", (phase, end)
    made = end["completion_tokens"] + end["overrun_tokens"]
    if phase == "decode":
        assert 0 < end["completion_tokens"] <= made < 4000
    else:
        assert made == 0, (phase, end)
    if phase == "prefill":
        assert end["prompt_tokens"] == CHUNK * PREFILL_STEPS


async def test_who_leaves_while_swapped_out_is_gone_from_both_tiers(tmp_path: Path) -> None:
    """Eight answers in pages for two or three, and all callers leave: every page can be used again. (The core checks its
    books after every step.)"""
    write_tiny_llama(tmp_path / "model")
    flags = ("--num-gpu-blocks-override", "24", "--max-model-len", "128", "--kv-cache-dtype", "float32")
    swapping = ("--preemption-mode", "swap", "--kv-offload-gib", "0.05", "--batch-invariant")
    async with serving(tmp_path / "model", *flags, *swapping) as engine:
        alone = [await _answer(engine, number) for number in range(3)]
        for stream in (True, False):
            before = await _figure(engine, "vllm:num_preemptions_total")
            tasks = [asyncio.create_task(_answer(engine, number, stream=stream)) for number in range(8)]
            async with asyncio.timeout(60):
                while True:
                    all_done = all(
                        task.done() for task in tasks
                    )  # before the figure, which counts all of them then
                    if await _figure(engine, "vllm:num_preemptions_total") != before:
                        break
                    assert not all_done, "pages for all of them"
                    await asyncio.sleep(0.005)
            for task in tasks:
                task.cancel()
            for task in tasks:
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await until_idle(engine)
        assert [await _answer(engine, number) for number in range(3)] == alone


async def _answer(engine: Engine, number: int, *, stream: bool = False) -> Any:
    body: dict[str, Any] = {"model": "m", "prompt": f"{number} {PROMPT}"[:40], "max_tokens": 60}
    body |= {"temperature": 0, "ignore_eos": True, "return_token_ids": True, "stream": stream}
    async with engine.session.post("/v1/completions", json=body) as answer:
        if stream:
            return await answer.read()
        return (await answer.json())["choices"][0]["token_ids"]


async def _steps(engine: Engine) -> int:
    return int(await _figure(engine, "engine_steps_total"))


async def _figure(engine: Engine, name: str) -> float:
    async with engine.session.get("/metrics") as answer:
        lines = (await answer.text()).splitlines()
    (value,) = (float(line.split("} ")[1]) for line in lines if line.startswith(f"{name}{{"))
    return value
