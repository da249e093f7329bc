"""Probing: what counts as an answer, with a real server and without one."""

import asyncio
from pathlib import Path

from aiohttp import web

from gateway.ids import ReplicaId
from gateway.pool.local import LocalLauncher
from gateway.pool.probe import EngineLoad, EngineStatus, Probe
from tests.gateway.pool.conftest import KEY, stub_spec, until
from tests.ports import kept_port


async def test_states_of_our_engine_and_of_a_strangers(
    launcher: LocalLauncher, probe: Probe, tmp_path: Path
) -> None:
    loaded = tmp_path / "loaded"
    spec = stub_spec(flags={"load-until": str(loaded), "drain-s": 600})
    where = launcher.assign(ReplicaId("rep_1"), spec, [], None)
    running = await launcher.launch(ReplicaId("rep"), "stub", spec, where)
    seen: list[EngineStatus] = []
    try:
        assert running.mark is not None
        while not seen or seen[-1].state != "ready":
            status = await probe.status(where.url, "tollway")
            if status is not None and status not in seen:
                seen.append(status)
                loaded.touch()
            await asyncio.sleep(0.05)
        assert [status.state for status in seen] == ["starting", "ready"]
        assert {status.epoch for status in seen} == {f"epoch-{running.mark.pid}"}
        assert await probe.status(where.url, "vllm") == EngineStatus("ready", None, EngineLoad(0, 0))
        assert await probe.drain(where.url)
        draining = await probe.status(where.url, "tollway")
        assert draining is not None
        assert draining.state == "draining"
    finally:
        await launcher.kill(ReplicaId("rep"), running)


async def test_an_engine_says_what_it_does(launcher: LocalLauncher, probe: Probe, tmp_path: Path) -> None:
    says = tmp_path / "says"
    says.write_text('{"running": 3, "waiting": 2}')
    spec = stub_spec(flags={"says": str(says)})
    where = launcher.assign(ReplicaId("rep_1"), spec, [], None)
    running = await launcher.launch(ReplicaId("rep"), "stub", spec, where)
    loads = {}
    try:

        async def answers() -> bool:
            for kind in ("tollway", "vllm"):
                status = await probe.status(where.url, kind)
                loads[kind] = status.load if status is not None else None
            return None not in loads.values()

        await until(answers)
        assert loads == {"tollway": EngineLoad(3, 2, 1.5), "vllm": EngineLoad(3, 2)}
        says.write_text('{"running": "many"}')
        silent = await probe.status(where.url, "tollway")
        assert silent is not None
        assert silent.load is None
    finally:
        await launcher.kill(ReplicaId("rep"), running)


async def test_nobody_there(probe: Probe) -> None:
    with kept_port() as port:
        url = f"http://127.0.0.1:{port}"
        assert await probe.status(url, "tollway") is None
        assert await probe.status(url, "external") is None
        assert not await probe.drain(url)


async def test_a_wrong_key_is_no_answer(launcher: LocalLauncher, probe: Probe) -> None:
    spec = stub_spec()
    where = launcher.assign(ReplicaId("rep_1"), spec, [], None)
    running = await launcher.launch(ReplicaId("rep"), "stub", spec, where)
    stranger = Probe("wrong")
    try:

        async def answers() -> bool:
            return await probe.status(where.url, "tollway") is not None

        await until(answers)
        assert await stranger.status(where.url, "tollway") is None
        assert await stranger.status(where.url, "external") is None
        assert not await stranger.drain(where.url)
    finally:
        await stranger.close()
        await launcher.kill(ReplicaId("rep"), running)


async def test_somebody_elses_engine_never_sees_our_key(probe: Probe) -> None:
    seen: list[str | None] = []

    async def models(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.json_response({"object": "list", "data": []})

    app = web.Application()
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        assert await probe.status(url, "external") == EngineStatus("ready", None)
        assert await probe.status(url, "vllm") == EngineStatus("ready", None)
    finally:
        await runner.cleanup()
    assert seen == [None, f"Bearer {KEY}"]
