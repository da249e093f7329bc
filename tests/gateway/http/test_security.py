"""What a hostile caller sends, after the list of what most often goes wrong with APIs.

Whose object it is: admin/test_access.py, test_file_routes.py, test_batch_routes.py. Heads, trailers and waiting:
test_protocol.py. Bodies that come slowly: test_call.py. Pages: admin/test_lists.py. Here is the rest.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict

from gateway.obs.logging import configure_logging
from tests.fakes.engine import FakeEngine
from tests.gateway.http.answers import BODY, CHAT, refused, row
from tests.harness import SERVED, Gateway

NOT_THE_CALLERS = {
    "id",
    "object",
    "created_at",
    "tenant_id",
    "secret_hmac",
    "held_nanousd",
    "is_admin",
    "pepper_id",
}
FORGED = dict.fromkeys(
    (
        *(
            "x-gateway-request-id",
            "x-gateway-attempt",
            "x-gateway-inference-fairness-id",
            "x-fairness-weight",
        ),
        *(
            "x-request-class",
            "x-cache-salt",
            "x-max-prompt-tokens",
            "x-max-output-tokens",
            "x-max-kv-fraction",
        ),
        *("x-slo-ttft-ms", "x-slo-tpot-ms", "x-emit-token-ids", "x-request-id", "x-internal-key", "cookie"),
        *("user-agent", "forwarded", "x-forwarded-host", "x-original-url", "x-http-method-override", "x-any"),
    ),
    "f04ged",
)


@pytest.fixture
def gateway_changes() -> dict[str, Any]:
    return {"server": {"trusted_proxy_cidrs": ["127.0.0.1/32"]}}


def _schemas(document: Any, found: Any) -> Iterator[dict[str, Any]]:
    """The objects that a body consists of."""
    if isinstance(found, list):
        for one in found:
            yield from _schemas(document, one)
    elif isinstance(found, dict):
        if "$ref" in found:
            found = document["components"]["schemas"][found["$ref"].rpartition("/")[2]]
        if "properties" in found:
            yield found
        for one in found.values():
            if isinstance(one, dict | list):
                yield from _schemas(document, one)


async def test_no_body_sets_what_is_not_the_callers(gateway: Gateway) -> None:
    """Mass assignment: every object of every admin body refuses the fields that it does not list. But for a question to a
    model: its fields are the data plane's, and are judged there."""
    document = await gateway.admin("GET", "/openapi.json")
    seen = 0
    bodies = [
        (path, method, operation.get("requestBody", {}))
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if path.startswith("/v1/organization/") and not path.endswith("/chat/completions")
    ]
    for path, method, body in bodies:
        for schema in _schemas(document, body):
            assert schema["additionalProperties"] is False, (method, path, schema["title"])
            own = set(schema["properties"]) - {"id"}  # an invite names its projects by it
            assert not NOT_THE_CALLERS & own, (method, path)
            seen += 1
    assert seen > 30
    for field in sorted(NOT_THE_CALLERS):
        error = await refused(
            gateway, "POST", "/v1/organization/projects", {"name": "x", field: "x"}, key=gateway.admin_key
        )
        assert (error["status"], error["param"]) == (400, field)


async def test_large_bodies_are_refused_and_strangers_are_not_read(
    gateway: Gateway, engine: FakeEngine
) -> None:
    tenant = await gateway.serve(engine)
    large = b" " * (gateway.settings.server.max_body_bytes + 1)
    for path, key in ((CHAT, tenant.key), ("/v1/organization/projects", gateway.admin_key)):
        error = await refused(gateway, "POST", path, key=key, data=io.BytesIO(large))
        assert row(error) == (413, "invalid_request_error", None)
        error = await refused(gateway, "POST", path, data=io.BytesIO(large))
        assert error["status"] == 401
    assert engine.requests == []


async def test_pools_lead_to_engines_only(gateway: Gateway) -> None:
    """Neither made nor changed so that the gateway would ask a cloud for its credentials."""
    spec = {"kind": "external", "model": "m", "served_names": ["m"], "urls": ["http://127.0.0.1:9"]}
    pool = await gateway.admin("POST", "/pools", {"name": "good", "spec": spec})
    bad = spec | {"urls": ["http://169.254.169.254/latest/meta-data"]}
    for path, body in (("", {"name": "bad", "spec": bad}), (f"/{pool['id']}", {"spec": bad})):
        error = await refused(gateway, "POST", f"/v1/organization/pools{path}", body, key=gateway.admin_key)
        assert (row(error), error["param"]) == ((400, "invalid_request_error", "invalid_value"), "spec")
    assert (await gateway.admin("GET", f"/pools/{pool['id']}"))["spec"]["urls"] == ["http://127.0.0.1:9/"]


async def test_names_are_text_and_nothing_else(gateway: Gateway) -> None:
    for name in ("a\nb", "a\r\nset-cookie: x", "\x1b[2J", "a\x7f"):
        for path, body in (("/projects", {"name": name}), ("/admin_api_keys", {"name": name})):
            error = await refused(gateway, "POST", f"/v1/organization{path}", body, key=gateway.admin_key)
            assert error["param"] == "name"
    for name in (
        "'; DROP TABLE tenant; --",
        "%' OR '1'='1",
        "{{7*7}} ${x} %s %(x)s",
        "=cmd()|'x'!A1",
        "ü 日本 🙂",
    ):
        made = await gateway.admin("POST", "/projects", {"name": name})
        assert (await gateway.admin("GET", f"/projects/{made['id']}"))["name"] == name
    for word in ("' OR '1'='1", "%25", "a%0d%0aset-cookie:x"):
        answer = await gateway.request("GET", f"/v1/organization/projects/{word}", key=gateway.admin_key)
        assert answer.status == 404
        assert "set-cookie" not in answer.headers


async def test_no_header_of_a_client_reaches_an_engine(gateway: Gateway, engine: FakeEngine) -> None:
    client = gateway.client(await gateway.serve(engine), default_headers=FORGED)
    await client.chat.completions.create(model=SERVED, messages=BODY["messages"])
    await client.completions.create(model=SERVED, prompt="a b")
    await client.embeddings.create(model=SERVED, input="a b")
    await client.responses.create(model=SERVED, input="a b")
    assert len(engine.requests) == 4
    for seen in engine.requests:
        assert "f04ged" not in json.dumps(dict(seen.headers))
        assert "x-any" not in {name.lower() for name in seen.headers}


async def test_two_credentials_are_none(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    bearer = f"Bearer {tenant.key}"
    async with aiohttp.ClientSession(gateway.url) as http:
        for path in ("/v1/models", "/v1/organization/projects"):
            for values in ((bearer, bearer), (bearer, f"Bearer {gateway.admin_key}"), ("x", bearer)):
                headers = CIMultiDict([("authorization", value) for value in values])
                async with http.get(path, headers=headers) as answer:
                    assert answer.status == 400
                    assert tenant.key not in await answer.text()


async def test_a_forged_address_beside_the_proxys_own_line(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    options = {"name": "ip", "ip_allow_list": ["203.0.113.0/24"]}
    key = (await gateway.admin("POST", f"/projects/{tenant.id}/api_keys", options))["value"]
    inside, outside = "203.0.113.9", "198.51.100.1"
    statuses = []
    async with aiohttp.ClientSession(gateway.url, headers={"authorization": f"Bearer {key}"}) as http:
        for hops in ((inside,), (inside, outside), (outside, inside), (f"{inside}, {outside}",)):
            async with http.get(
                "/v1/models", headers=CIMultiDict([("x-forwarded-for", hop) for hop in hops])
            ) as answer:
                statuses.append(answer.status)
    assert statuses == [200, 401, 200, 401]


async def test_logs_are_whole_lines_without_keys(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    lines = io.StringIO()
    configure_logging("info", lines)
    unknown = f"{tenant.key[:-4]}AAAA"
    for key in (tenant.key, unknown, gateway.admin_key):
        for path in (
            CHAT,
            f"/v1/models/{key}",
            f"/v1/files/{key}",
            f"/v1/organization/projects/{key}?api_key={key}",
        ):
            await gateway.request("GET", path, key=key, headers={"x-api-key": key, "cookie": key})
        for model in (key, 'x\n{"event": "forged"}', SERVED):
            await gateway.request("POST", CHAT, BODY | {"model": model, "user": key}, key=key)
    configure_logging("warning")
    written = lines.getvalue()
    assert written.count('"event": "request"') >= 21
    assert "forged" not in {json.loads(line)["event"] for line in written.splitlines()}
    for key in (tenant.key, unknown, gateway.admin_key):
        assert key.split("-", 2)[2] not in written


async def test_no_answer_tells_of_our_insides(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    await engine.stop()
    texts = []
    for method, path, key, data in (
        ("POST", CHAT, tenant.key, json.dumps(BODY)),
        ("POST", CHAT, tenant.key, "{"),
        ("POST", CHAT, tenant.key, "[" * 100_000),
        ("POST", "/v1/organization/projects", gateway.admin_key, '{"name": {}}'),
        ("GET", "/v1/organization/usage/completions?start_time=x", gateway.admin_key, None),
        ("PUT", "/v1/organization/projects", gateway.admin_key, None),
    ):
        answer = await gateway.request(method, path, key=key, data=data)
        assert answer.status >= 400
        texts.append(await answer.text())
    told = "\n".join(texts)
    for word in (
        "Traceback",
        ".py",
        "asyncpg",
        "sqlalchemy",
        "pydantic",
        "127.0.0.1",
        engine.model,
        engine.url,
    ):
        assert word.lower() not in told.lower()
