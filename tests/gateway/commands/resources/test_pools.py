"""Pools and replicas by the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from typer.testing import CliRunner

from gateway.cli import app
from gateway.commands.resources.pools import _flags
from tests.fakes.engine import FakeEngine
from tests.harness import Gateway


def test_flags() -> None:
    before = {"max-model-len": 8192, "kv-cache-dtype": "fp8"}
    changes = [
        "--max-model-len=4096",
        "kv-cache-dtype=",
        "enforce-eager",
        "gpu-memory-utilization=0.8",
        "x=[1]",
    ]
    assert _flags(before, changes) == {
        "max-model-len": 4096, "enforce-eager": True, "gpu-memory-utilization": 0.8, "x": "[1]",
    }  # fmt: skip
    assert _flags(before, None) == before


async def test_pools(gateway: Gateway, engine: FakeEngine, admin: Callable[..., Awaitable[Any]]) -> None:
    names = ("--model", "/models/llama", "--served", "llama", "--served", "chat")
    made = await admin("pools", "create", "fast", *names, "--min", "2", "--flag", "max-model-len=8192")
    spec = made["spec"]
    assert (spec["served_names"], spec["flags"]) == (["llama", "chat"], {"max-model-len": 8192})
    assert (spec["min_replicas"], spec["max_replicas"], made["generation"]) == (2, 2, 1)
    scaled = await admin("pools", "scale", "fast", "--min", "3", "--max", "4")
    assert (scaled["spec"]["min_replicas"], scaled["spec"]["max_replicas"], scaled["generation"]) == (3, 4, 1)
    rolled = await admin("pools", "roll", made["id"], "--flag", "max-model-len=4096")
    assert (rolled["spec"]["flags"], rolled["generation"]) == ({"max-model-len": 4096}, 2)
    assert rolled["spec"]["min_replicas"] == 3, "what is not given stays"
    same = await admin("pools", "roll", "fast", "--flag", "max-model-len=4096", status=1)
    assert same.startswith("error: fast runs exactly this already")
    project = (await admin("projects", "create", "Acme"))["id"]
    kept = await admin("pools", "set", "fast", "--name", "slow", "--reserved", project)
    assert (kept["name"], kept["reserved_projects"], kept["generation"]) == ("slow", [project], 2)
    assert (await admin("pools", "set", "slow", "--for-all"))["reserved_projects"] == []
    assert (await admin("pools", "drain", "slow", "--yes"))["desired_state"] == "stopped"
    assert (await admin("pools", "start", "slow"))["desired_state"] == "running"
    replica = await gateway.replica(made["id"], engine)
    assert [one["id"] for one in await admin("replicas", "list", "--pool", "slow")] == [replica]
    where = ["--url", gateway.url, "--admin-key", gateway.admin_key]
    table = await asyncio.to_thread(CliRunner().invoke, app, ["admin", "pools", "list", *where])
    assert table.stdout.splitlines()[1].split() == [
        made["id"], "slow", "running", "tollway", "/models/llama", "1", "3", "2",
    ]  # fmt: skip
    await gateway.sql("DELETE FROM replica")
    await admin("pools", "drain", "slow", "--yes")
    await admin("pools", "delete", "slow", "--yes")
    assert await admin("pools", "list") == []


async def test_an_external_pool(gateway: Gateway, admin: Callable[..., Awaitable[Any]]) -> None:
    flags = ("--kind", "external", "--model", "m", "--served", "m", "--engine-url", "http://127.0.0.1:9")
    made = await admin("pools", "create", "theirs", *flags)
    assert made["spec"]["urls"] == ["http://127.0.0.1:9/"]
    assert (await admin("pools", "show", "theirs"))["id"] == made["id"]
