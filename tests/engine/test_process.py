"""The supervisor with real child processes: real API processes, a scripted core that needs no torch."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from engine.server import segments
from engine.server.journal import Journal
from tests.fakes.core import HALT_AT
from tests.ports import keep_port
from tests.tiny_tokenizer import write_llama_tokenizer

ROOT = Path(__file__).resolve().parents[2]
KEY = {"authorization": "Bearer internal"}
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "The lamps at dusk"}], "stream": True}


WITHIN_S = 120.0


@dataclass
class Engine:
    process: asyncio.subprocess.Process
    session: aiohttp.ClientSession
    journal_dir: Path
    halt: Path
    """Make it, and the core stops in the middle of each answer, until it is gone."""

    async def status(self) -> dict[str, Any]:
        async with self.session.get("/internal/status") as answer:
            return await answer.json()

    @property
    def port(self) -> int:
        port = self.session._base_url.port  # type: ignore[union-attr]  # it has one
        assert port is not None
        return port

    async def metrics(self) -> str:
        async with self.session.get("/metrics") as answer:
            return await answer.text()

    async def counter(self, name: str) -> int:
        """Of the metrics, without labels of its own."""
        lines = (await self.metrics()).splitlines()
        return sum(int(float(line.split()[-1])) for line in lines if line.startswith(f"{name}_total"))

    async def until_running(self, count: int = 1) -> None:
        async with asyncio.timeout(WITHIN_S):
            while (await self.status())["running"] < count:  # noqa: ASYNC110  # asks another process
                await asyncio.sleep(0.01)

    async def ends(self) -> int:
        """Waits for it, however long its processes take to be gone."""
        return await asyncio.wait_for(self.process.wait(), WITHIN_S)

    async def until_ready(self, *, but_not: str | None = None) -> dict[str, Any]:
        """The status once a core is ready (with another epoch than `but_not`)."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                try:
                    found = await self.status()
                    if found["state"] == "ready" and found["epoch"] != but_not:
                        return found
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.02)

    async def stream(self, **fields: object) -> list[str]:
        """The data lines of one streamed chat."""
        async with self.session.post("/v1/chat/completions", json={**CHAT, **fields}) as answer:
            text = await answer.text()
        return [line.removeprefix("data: ") for line in text.split("\n") if line]

    async def usage(self, **query: str) -> list[dict[str, Any]]:
        """Every record, page by page."""
        records: list[dict[str, Any]] = []
        page: dict[str, Any] = {"cursor": "", "complete": False}
        while not page["complete"]:
            params = {"after": page["cursor"], **query}
            async with self.session.get("/internal/usage", params=params) as answer:
                page = await answer.json()
            records += page["records"]
        return records


@asynccontextmanager
async def running_engine(tmp_path: Path, *flags: str, **environment: str) -> AsyncIterator[Engine]:
    model = tmp_path / "model"
    model.mkdir(exist_ok=True)
    write_llama_tokenizer(model)
    keeper = keep_port()
    port = keeper.getsockname()[1]
    # On a busy machine a sibling answers late, and whoever was told to end does so late.
    script = textwrap.dedent("""
        import asyncio, logging, sys
        from engine import process
        from engine.flags import parse
        from engine.process import Supervisor
        api = "import sys; from engine.server import peers; peers.ANSWER_TIMEOUT_S = 60;"
        process.ENGINE = (sys.executable, "-c", api + "from engine.__main__ import main; sys.exit(main())")
        process._SHUTDOWN_S = 60
        logging.basicConfig(level=logging.INFO)
        config = parse(sys.argv[1:])
        sys.exit(asyncio.run(Supervisor(config, (sys.executable, "-m", "tests.fakes.core")).run()))
    """)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, str(model), "--served-model-name", "tiny", "--port", str(port)),
        *("--internal-key", "internal", "--journal-dir", str(tmp_path / "journal")),
        *("--drain-grace-s", "0", *flags),
        cwd=ROOT,
        env={**os.environ, "FAKE_CORE_HALT": str(tmp_path / "halt"), **environment},
    )
    session = aiohttp.ClientSession(f"http://127.0.0.1:{port}", headers=KEY)
    try:
        yield Engine(process, session, tmp_path / "journal", tmp_path / "halt")
    finally:
        keeper.close()
        await session.close()
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
            if process.returncode is None:
                process.send_signal(number)
                try:
                    await asyncio.wait_for(process.wait(), 30 if number is signal.SIGTERM else None)
                except TimeoutError:
                    continue


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("generation_config.json", '{"temperature": 3}', "temperature must be within"),
        ("chat_template.jinja", "{% if %}", "the chat template does not compile"),
    ],
)
async def test_what_is_wrong_with_a_checkpoint_is_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], file: str, text: str, says: str
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / file).write_text(text, encoding="utf-8")
    async with running_engine(tmp_path) as engine:
        assert await engine.ends() != 0
    said = capfd.readouterr().err
    assert says in said
    assert "Traceback" not in said


async def test_serves_and_drains(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        await engine.until_ready()
        lines = await engine.stream(max_tokens=5)
        assert lines[-1] == "[DONE]"
        children = psutil.Process(engine.process.pid).children(recursive=True)
        assert len(children) == 2
        engine.process.send_signal(signal.SIGTERM)
        assert await engine.ends() == 0
        assert not psutil.wait_procs(children, timeout=60)[1]


async def test_a_start_removes_journals_that_are_old(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    Journal(directory, 0, lambda: 1).close()
    (old,) = segments.list_segments(directory)
    os.utime(old.path, (1, 1))
    async with running_engine(tmp_path) as engine:
        await engine.until_ready()
        assert old not in segments.list_segments(directory)


async def test_drain_lets_streams_finish(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        await engine.until_ready()
        engine.halt.touch()
        running = asyncio.create_task(engine.stream(max_tokens=200))
        await engine.until_running()
        async with engine.session.post("/internal/drain") as answer:
            assert answer.status == 202
        async with engine.session.get("/ready") as answer:
            assert answer.status == 503
        assert not running.done()
        engine.halt.unlink()
        lines = await running
        assert lines[-1] == "[DONE]"
        assert await engine.ends() == 0


async def test_second_signal_aborts(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        await engine.until_ready()
        engine.halt.touch()
        running = asyncio.create_task(engine.stream(max_tokens=900))
        await engine.until_running()
        engine.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(WITHIN_S):
            while (await engine.status())["state"] != "draining":  # noqa: ASYNC110  # asks another process
                await asyncio.sleep(0.01)  # two signals at once would be one
        assert not running.done()
        engine.process.send_signal(signal.SIGTERM)
        lines = await asyncio.wait_for(running, WITHIN_S)
        assert lines[-1] == "[DONE]"
        assert '"abort"' in lines[-2]
        assert await engine.ends() == 0


async def test_core_killed_under_load(tmp_path: Path) -> None:
    """Every request in flight gets one error, the API process stays, a new core serves under a new epoch."""
    async with running_engine(tmp_path) as engine:
        before = await engine.until_ready()
        engine.halt.touch()
        running = [asyncio.create_task(engine.stream(max_tokens=900)) for _ in range(24)]
        async with asyncio.timeout(WITHIN_S):
            while await engine.counter("vllm:generation_tokens") < 24 * HALT_AT:  # noqa: ASYNC110  # another process
                await asyncio.sleep(0.05)
        os.kill(before["core_pid"], signal.SIGKILL)
        for lines in await asyncio.wait_for(asyncio.gather(*running), WITHIN_S):
            assert [line for line in lines if '"error"' in line] == lines[-1:]
            assert '"engine_error"' in lines[-1]
            assert '"usage"' in lines[-1]
        engine.halt.unlink()
        after = await engine.until_ready(but_not=before["epoch"])
        assert (after["pid"], after["request_ids"]) == (before["pid"], [])
        assert after["core_pid"] != before["core_pid"]
        assert (await engine.stream(max_tokens=3))[-1] == "[DONE]"
        ends = [record for record in await engine.usage() if record["kind"] == "end"]
        assert [end["finish_reason"] for end in ends] == ["error"] * 24 + ["length"]
        assert all(end["completion_tokens"] > 0 for end in ends)


async def test_api_process_killed(tmp_path: Path) -> None:
    """The core ends its requests, its journal is closed with what was reported, another one takes over."""
    async with running_engine(tmp_path) as engine:
        before = await engine.until_ready()
        engine.halt.touch()
        headers = {"x-gateway-request-id": "gw-1"}
        async with engine.session.post(
            "/v1/chat/completions", json={**CHAT, "max_tokens": 900}, headers=headers
        ) as answer:
            with pytest.raises(aiohttp.ClientError):
                await _read_and_kill(answer, before["pid"])
        after = await engine.until_ready()
        assert after["pid"] != before["pid"]
        assert (after["epoch"], after["request_ids"]) == (before["epoch"], [])
        records = await engine.usage(request_id="gw-1")
        assert [records[0]["kind"], records[-1]["kind"]] == ["start", "end"]
        assert records[-1]["finish_reason"] == "error"
        assert 32 <= records[-1]["completion_tokens"] <= 900
        assert (await engine.stream(max_tokens=3))[-1] == "[DONE]"
        assert (await engine.status())["running"] == 0


async def _read_and_kill(answer: aiohttp.ClientResponse, pid: int) -> None:
    seen = 0
    async for line in answer.content:
        seen += b'"content":"' in line and b'"content":""' not in line
        if seen == 100:
            os.kill(pid, signal.SIGKILL)


async def test_supervisor_killed_leaves_no_orphans(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        await engine.until_ready()
        engine.halt.touch()
        running = asyncio.create_task(engine.stream(max_tokens=900))
        await engine.until_running()
        children = psutil.Process(engine.process.pid).children(recursive=True)
        engine.process.kill()
        lines = await asyncio.wait_for(running, WITHIN_S)
        assert '"error"' in lines[-1]
        assert not (await asyncio.to_thread(psutil.wait_procs, children, timeout=60))[1]


async def test_core_that_cannot_start_ends_the_engine(tmp_path: Path) -> None:
    async with running_engine(tmp_path, FAKE_CORE_FAILS="1") as engine:
        assert await engine.ends() == 1


async def test_memory_of_large_bodies_goes_back_to_the_system(tmp_path: Path) -> None:
    """What one caller once made the API process hold does not stay with it for ever."""
    async with running_engine(tmp_path) as engine:
        api = psutil.Process((await engine.until_ready())["pid"])

        async def ask(num_chars: int) -> int:
            body = io.BytesIO(b'{"prompt": "%b"}' % (b"lamp " * (num_chars // 5)))
            async with engine.session.post("/tokenize", data=body) as answer:
                await answer.read()
                return answer.status

        assert await ask(1000) == 200
        before, held = api.memory_info().rss, []
        for size in (24, 1, 16, 30, 8):
            asked = [ask(1000) for _ in range(8)]
            statuses = await asyncio.gather(ask(size << 20), ask(3 << 20), *asked)
            assert {*statuses} == {200, 400}
            held.append(api.memory_info().rss - before)
        assert min(held[-2:]) < 16 << 20, held


async def test_several_api_processes(tmp_path: Path) -> None:
    """One answer from any of them: ids in flight, aborts, metrics, journal."""
    async with running_engine(tmp_path, "--api-workers", "2") as engine:
        await engine.until_ready()
        engine.halt.touch()
        names = [f"gw-{number}" for number in range(8)]

        async def one(name: str) -> str:
            async with aiohttp.ClientSession(engine.session._base_url, headers=KEY) as session:
                body = {**CHAT, "max_tokens": 900}
                headers = {"x-gateway-request-id": name}
                async with session.post("/v1/chat/completions", json=body, headers=headers) as answer:
                    return await answer.text()

        running = [asyncio.create_task(one(name)) for name in names]
        async with asyncio.timeout(60):
            while (await engine.status())["request_ids"] != names:  # noqa: ASYNC110  # asks another process
                await asyncio.sleep(0.05)
        for name in names:
            async with engine.session.post("/internal/abort", json={"request_id": name}) as answer:
                assert await answer.json() == {"aborted": True}
        for text in await asyncio.wait_for(asyncio.gather(*running), WITHIN_S):
            assert text.endswith("data: [DONE]\n\n")
        async with asyncio.timeout(WITHIN_S):
            while 'finished_reason="abort"} 8' not in await engine.metrics():  # noqa: ASYNC110  # snapshots
                await asyncio.sleep(0.1)
        records = await engine.usage()
        assert {r["request_id"] for r in records if r["kind"] == "end"} == set(names)
