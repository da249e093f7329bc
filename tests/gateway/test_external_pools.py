"""Engines of somebody else, on a whole gateway: their key, their certificate, and that nobody learns of the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.keyring import key_id_of
from gateway.pool.probe import EngineStatus, Probe
from gateway.rotation import KeyUse, Secrets
from tests.certificates import Authority
from tests.fakes.stranger import Stranger
from tests.harness import SERVED, Gateway, Tenant

CHAT = "/v1/chat/completions"
ASK: dict[str, Any] = {"model": SERVED, "messages": [{"role": "user", "content": "hi"}]}
KEY, NEXT_KEY = "sk-their-secret-1", "sk-their-secret-2"


@pytest.fixture
def gateway_changes(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "pepper").write_text("a-pepper-of-sixteen-bytes-at-least")
    (tmp_path / "master").write_text("a-master-key")
    return {"security": {"key_pepper_file": tmp_path / "pepper", "master_key_file": tmp_path / "master"}}


async def pool_of(gateway: Gateway, url: str, **fields: Any) -> tuple[str, Tenant]:
    spec = {"kind": "external", "model": "m", "served_names": ["their-model"], "urls": [url]}
    spec |= {name: fields.pop(name) for name in ("ca_bundle",) if name in fields}
    pool_id = (await gateway.admin("POST", "/pools", {"name": "theirs", "spec": spec, **fields}))["id"]
    await gateway.sql(
        "INSERT INTO replica (id, pool_id, node, state, url, ready_at) VALUES ('rep_1', $1, 'n', 'ready', $2, now())",
        pool_id,
        url,
    )
    await gateway.route(pool_id)
    tenant = await gateway.tenant()
    await gateway.refresh()
    return pool_id, tenant


async def ask(gateway: Gateway, tenant: Tenant) -> int:
    return (await gateway.request("POST", CHAT, ASK, tenant.key)).status


async def test_the_key_is_sent_wherever_the_engine_is_asked(gateway: Gateway) -> None:
    async with Stranger(KEY) as engine:
        pool_id, tenant = await pool_of(gateway, engine.url(), api_key=KEY)
        assert await ask(gateway, tenant) == 200
        await gateway.poll()
        assert gateway.app.metrics.replica_waiting.labels(replica="rep_1")._value.get() == 4
        [pool] = await gateway.sql("SELECT sealed_api_key FROM pool")
        access = gateway.app.access.of(gateway.target(tenant).pool_id, pool["sealed_api_key"], None)
        probe = Probe("key-of-ours")
        assert await probe.status(engine.url(), "external", access) == EngineStatus("ready")
        assert await probe.status(engine.url(), "external") is None
        await probe.close()
        assert engine.keys(CHAT) == engine.keys("/metrics") == {f"Bearer {KEY}"}
        assert engine.keys("/v1/models") == {f"Bearer {KEY}", None}, "and ours never"
        engine.api_key = NEXT_KEY
        assert await ask(gateway, tenant) == 500, "a wrong key is the operator's mistake, not the caller's"
        await gateway.admin("PATCH", f"/pools/{pool_id}", {"api_key": NEXT_KEY})
        await gateway.refresh()
        assert await ask(gateway, tenant) == 200
        await gateway.admin("PATCH", f"/pools/{pool_id}", {"api_key": None})
        await gateway.refresh()
        engine.asked.clear()
        await ask(gateway, tenant)
        assert engine.keys(CHAT) == {None}


async def test_the_key_is_written_and_never_read(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Stranger(NEXT_KEY) as engine:
        pool_id, tenant = await pool_of(gateway, engine.url(), api_key=KEY)
        await ask(gateway, tenant)  # refused there: what is logged and answered of it
        answers = [
            await gateway.admin("GET", f"/pools/{pool_id}"),
            await gateway.admin("GET", "/pools"),
            await gateway.admin("PATCH", f"/pools/{pool_id}", {"api_key": NEXT_KEY}),
            await gateway.admin("PATCH", f"/pools/{pool_id}", {"api_key": "with space"}, 400),
            await gateway.admin("GET", "/audit_logs?limit=100"),
        ]
        assert [answer.get("has_api_key") for answer in answers[:3]] == [True, None, True]
        changes = [log["details"] for log in answers[-1]["data"] if log["action"] == "pool.updated"]
        assert [change["after"].get("key_was_set") for change in changes] == [True]
        rows = await gateway.sql("SELECT row_to_json(p)::text AS pool FROM pool p")
        said = f"{answers} {rows} {capsys.readouterr()}"
        assert KEY not in said
        assert NEXT_KEY not in said


async def test_the_key_goes_nowhere_else(gateway: Gateway) -> None:
    """Whoever may change a pool but not read its key cannot have it sent to a place of their own."""
    async with Stranger() as engine:
        pool_id, tenant = await pool_of(gateway, engine.url(), api_key=KEY)
        spec = {"kind": "external", "model": "m", "served_names": ["their-model"]}
        elsewhere = {"spec": spec | {"urls": ["http://127.0.0.1:9"]}}
        for change, status in (
            (elsewhere, 400),
            ({"spec": {"model": "m", "served_names": ["their-model"]}}, 400),
            ({"spec": spec | {"urls": [engine.url()], "served_names": ["b"]}}, 200),
            (elsewhere | {"api_key": KEY}, 200),
            (elsewhere | {"api_key": None}, 200),
        ):
            refused = await gateway.admin("PATCH", f"/pools/{pool_id}", change, status)
            assert status == 200 or refused["error"]["param"] == "api_key"
        ours = {"name": "ours", "spec": {"model": "m", "served_names": ["x"]}, "api_key": KEY}
        assert (await gateway.admin("POST", "/pools", ours, 400))["error"]["param"] == "api_key"
        assert await ask(gateway, tenant) in (200, 503)


async def test_the_certificate_is_verified_by_the_pools_own_authority(
    gateway: Gateway, tmp_path: Path
) -> None:
    authority = Authority.made()
    async with Stranger(KEY, authority.server(tmp_path, "localhost")) as engine:
        url = engine.url("localhost")
        pool_id, tenant = await pool_of(gateway, url, api_key=KEY, ca_bundle=authority.pem)
        assert await ask(gateway, tenant) == 200
        await gateway.poll()
        assert engine.keys("/metrics") == {f"Bearer {KEY}"}
        spec = (await gateway.admin("GET", f"/pools/{pool_id}"))["spec"]
        assert spec["ca_bundle"] == authority.pem
        engine.asked.clear()
        for bundle in (Authority.made("another").pem, None):
            changed = await gateway.admin(
                "PATCH", f"/pools/{pool_id}", {"spec": spec | {"ca_bundle": bundle}}
            )
            assert changed["generation"] == 1, "no replica is replaced for it"
            await gateway.refresh()
            assert await ask(gateway, tenant) == 503
        assert engine.keys(CHAT) == set(), "a prompt is sent to nobody who is not who they say"
        for wrong in ("nonsense", ""):
            await gateway.admin("PATCH", f"/pools/{pool_id}", {"spec": spec | {"ca_bundle": wrong}}, 400)


async def test_what_reaches_an_engines_inside_is_refused_or_left_out(gateway: Gateway) -> None:
    """Unknown fields pass; another request's pages, weights, code and places in the queue do not."""
    async with Stranger() as engine:
        _, tenant = await pool_of(gateway, engine.url())

        async def send(**fields: Any) -> Any:
            return await gateway.request("POST", CHAT, ASK | fields, tenant.key)

        for name in (
            "kv_transfer_params",
            "lora_path",
            "custom_logit_processor",
            "prompt_embeds",
            "api_base",
        ):
            answer = await send(**{name: {"a": 1}})
            error = (await answer.json())["error"]
            assert (answer.status, error["code"], error["param"]) == (400, "unsupported_parameter", name)
        assert engine.keys(CHAT) == set()
        answer = await send(
            cache_salt="x", priority=9, _internal=1, top_k=7, lora_path=None, brand_new={"a": [1]}
        )
        assert answer.status == 200
        assert answer.headers["x-tollway-ignored"] == "_internal, cache_salt, priority"
        [asked] = [one for one in engine.asked if one.path == CHAT]
        assert (asked.body["top_k"], asked.body["brand_new"]) == (7, {"a": [1]})
        assert not {"cache_salt", "priority", "_internal", "lora_path"} & asked.body.keys()
        await gateway.events(1)


async def test_rotation_seals_it_again(gateway: Gateway) -> None:
    async with Stranger(KEY) as engine:
        _, tenant = await pool_of(gateway, engine.url(), api_key=KEY)
        secrets = Secrets(gateway.settings)
        assert await secrets.master_keys() == [KeyUse("m1", True, 1)]
        await secrets.rotate_master_key(standby=False)
        assert await secrets.master_keys() == [KeyUse("m2", True, 1), KeyUse("m1", False, 0)]
        [pool] = await gateway.sql("SELECT sealed_api_key FROM pool")
        assert key_id_of(pool["sealed_api_key"])[0] == "m2"
        await secrets.drop_master_key("m1")
        await secrets.close()
        await gateway.refresh()
        assert await ask(gateway, tenant) == 200
