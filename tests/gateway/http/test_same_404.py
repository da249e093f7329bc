"""A name that does not exist and every name that the caller may not use: the same bytes, and the same work behind them.

Were one of them looked up in another place, or for longer, the time of the answer would tell what its words do not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from structlog.contextvars import get_contextvars

from gateway.db import Database, Lane
from gateway.ledger import Ledger
from gateway.limits.channel import ScriptChannel
from gateway.upstream import UpstreamClient
from tests.fakes.engine import FakeEngine
from tests.gateway.http.answers import GENERATES
from tests.harness import SERVED, Gateway, Tenant

OUTWARD = (
    (Lane, "rows"),
    (Database, "read"),
    (Database, "write"),
    (Database, "transaction"),
    (ScriptChannel, "call"),
    (ScriptChannel, "post"),
    (UpstreamClient, "post"),
    (UpstreamClient, "fetch"),
    (Ledger, "reserve"),
)
"""Whatever leads out of the process to SQL, to the cache or to an engine, and the queue to the ledger's own tasks."""


@pytest.fixture
def outward(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What requests did; what is done beside them has no request's id."""
    done: list[str] = []

    def noted(kind: type, name: str) -> Callable[..., Any]:
        original = getattr(kind, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if "request_id" in get_contextvars():
                done.append(f"{kind.__name__}.{name}")
            return original(*args, **kwargs)

        return call

    for kind, name in OUTWARD:
        monkeypatch.setattr(kind, name, noted(kind, name))
    return done


async def _hidden(gateway: Gateway, engine: FakeEngine, tenant: Tenant) -> list[str]:
    """Names of each kind that the tenant may not use, of one length."""
    other = await gateway.tenant("other")
    pool_id = await gateway.pool(engine, name="second")
    await gateway.route(pool_id, "others-own-name", other)
    await gateway.route(pool_id, "denied-to-them1")
    await gateway.route(pool_id, "unpublished-one", published=False)
    reserved = await gateway.pool(engine, name="reserved")
    await gateway.admin("POST", f"/pools/{reserved}", {"reserved_projects": [other.id]})
    await gateway.route(reserved, "in-anothers-own")
    denied = {"mode": "deny_list", "model_ids": ["denied-to-them1"]}
    await gateway.admin("POST", f"/projects/{tenant.id}/model_permissions", denied)
    await gateway.refresh()
    theirs = gateway.client(other).models
    visible = [model.id async for model in theirs.list()]
    assert {"others-own-name", "denied-to-them1", "in-anothers-own", SERVED} == set(visible), "they do exist"
    return ["others-own-name", "denied-to-them1", "unpublished-one", "in-anothers-own", "does-not-exist0"]


async def test_what_is_hidden_cannot_be_told_from_what_is_not_there(
    gateway: Gateway, engine: FakeEngine, outward: list[str]
) -> None:
    tenant = await gateway.serve(engine)
    names = await _hidden(gateway, engine, tenant)
    seen: dict[str, set[str]] = {}
    first = await gateway.request(
        "POST", "/v1/chat/completions", GENERATES["/v1/chat/completions"] | {"model": SERVED}, tenant.key
    )
    assert first.status == 200
    assert {"UpstreamClient.post", "Ledger.reserve"} <= set(outward), "they are watched"
    for name in names:
        for path, body in [
            *GENERATES.items(),
            *((path, body | {"stream": True}) for path, body in GENERATES.items()),
        ]:
            if path == "/v1/embeddings" and "stream" in body:
                continue
            outward.clear()
            answer = await gateway.request("POST", path, {"model": name, **body}, tenant.key)
            text = (await answer.text()).replace(name, "NAME")
            headers = sorted(set(answer.headers) - {"Date"})
            told = json.dumps([answer.status, text, headers, outward])
            seen.setdefault(f"{path} {'stream' in body}", set()).add(told)
        outward.clear()
        answer = await gateway.request("GET", f"/v1/models/{name}", key=tenant.key)
        told = json.dumps([answer.status, (await answer.text()).replace(name, "NAME"), outward])
        seen.setdefault("/v1/models", set()).add(told)
    assert len(seen) == 8
    for asked, answers in seen.items():
        [one] = answers
        assert json.loads(one)[0] == 404, asked
        assert json.loads(one)[-1] == [], "nobody is asked at all"
    assert len(engine.requests) == 1
