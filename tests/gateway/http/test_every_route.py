"""Every route of the running application × who must not get anything by it.

The routes are the application's own: the router's table and the admin API's. One that is added without a case here fails.
What over-budget keys meet is in test_budget_on_every_route.py; what each role may do, in admin/test_access.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from gateway.http.admin.access import ACCESS, CHAT_ROUTE, OPEN, PREFIX
from gateway.http.admin.app import create_application
from gateway.http.router import Router
from gateway.tenancy.service import SCOPES
from tests.fakes.clock import WallClock
from tests.fakes.engine import FakeEngine
from tests.gateway.http.answers import GENERATES
from tests.gateway.http.two_tenants import ALERT, Caller, Side, build, rows_of
from tests.harness import SERVED, Gateway
from tests.openapi import DOCUMENT

MODEL, HOOKS, USAGE = "model.request", "webhooks.write", "usage.read"
NONE = "none_0123456789"
"""An id that is nobody's."""


@dataclass(frozen=True)
class Case:
    """A route of the data plane, and what is sent to it. `of`: of what the id in its path is."""

    scope: str | None
    body: Any = None
    of: str | None = None


BATCH = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}
HOOK = {"name": "n", "url": "https://hooks.example.com/x", "event_types": ["batch.failed"]}
CASES = {
    **{f"POST {path}": Case(MODEL, {"model": SERVED, **body}) for path, body in GENERATES.items()},
    "GET /v1/models": Case(MODEL),
    "GET /v1/files": Case(MODEL),
    "POST /v1/files": Case(MODEL),
    "GET /v1/files/{id}": Case(MODEL, of="files"),
    "DELETE /v1/files/{id}": Case(MODEL, of="files"),
    "GET /v1/files/{id}/content": Case(MODEL, of="files"),
    "GET /v1/batches": Case(MODEL),
    "POST /v1/batches": Case(MODEL, {**BATCH, "input_file_id": NONE}),
    "GET /v1/batches/{id}": Case(MODEL, of="batches"),
    "POST /v1/batches/{id}/cancel": Case(MODEL, of="batches"),
    "GET /v1/webhook_endpoints": Case(HOOKS),
    "POST /v1/webhook_endpoints": Case(HOOKS, HOOK),
    "GET /v1/webhook_endpoints/{id}": Case(HOOKS, of="endpoint_id"),
    "POST /v1/webhook_endpoints/{id}": Case(HOOKS, {"name": "x"}, "endpoint_id"),
    "DELETE /v1/webhook_endpoints/{id}": Case(HOOKS, of="endpoint_id"),
    "POST /v1/webhook_endpoints/{id}/rotate_secret": Case(HOOKS, {}, "endpoint_id"),
    "POST /v1/webhook_endpoints/{id}/test": Case(HOOKS, {"event_type": "batch.failed"}, "endpoint_id"),
    "GET /v1/webhook_event_types": Case(HOOKS),
    "GET /metrics": Case(None),
}
MODELS = "* /v1/models/*"
FOR_EVERYBODY = {"GET /healthz", "GET /readyz", "GET /", "HEAD /", "* /console/*"}
"""Tell nothing of any tenant: the console's files are the same for all."""
ADMIN = f"* {PREFIX}/*"
TRY = "POST /projects/{project_id}/webhook_endpoints/{endpoint_id}/test"
ROTATE = "POST /projects/{project_id}/api_keys/{key_id}/rotate"
BODIES: dict[str, Any] = {
    "POST /projects/{project_id}/spend_alerts/{alert_id}": ALERT,
    ROTATE: {"idempotency_key": "k"},
    TRY: {"event_type": "batch.failed"},
}
"""Good ones, so that it is the id that decides; `{}` is good elsewhere."""
OF_ITS_OWN = {"GET /live", "POST /sessions/logout_everywhere", "POST /me/password"}
"""`live` is a stream of hints without data; the others end the caller's own sessions, or change its own password."""
NO_LISTS = {"/metrics", f"{PREFIX}/live", f"{PREFIX}/openapi.json"}
_LAST_USED = re.compile(r'"last_used_at":(\d+|null),?')
"""Of the caller's own key or session, written a little later."""
SAID_OF = {
    "project_id": "project_id",
    "project_ids": "project_id",
    "api_key_id": "key_id",
    "api_key_ids": "key_id",
    "user_id": "user_id",
    "user_ids": "user_id",
    "request_id": "request_id",
    "q": "project_id",
}
"""What a list can be asked for → whose id that is."""


@pytest.fixture
async def pool_id(gateway: Gateway, engine: FakeEngine) -> str:
    made = await gateway.pool(engine)
    await gateway.route(made)
    return made


@pytest.fixture
async def theirs(gateway: Gateway, pool_id: str) -> Side:
    return await build(gateway, "theirs", pool_id)


@pytest.fixture
async def mine(gateway: Gateway, pool_id: str) -> Side:
    """Of who asks."""
    return await build(gateway, "mine", pool_id)


def _router(gateway: Gateway) -> Router:
    router = gateway.app.edge._handler
    assert isinstance(router, Router)
    return router


def _filled(path: str, ids: dict[str, str]) -> str:
    """`none` where a tenant has nothing of the kind."""
    return re.sub(r"\{(\w+)\}", lambda found: ids.get(found[1], NONE), path)


def _called(ids: dict[str, str], model: str) -> Iterator[tuple[str, str, str, Any]]:
    """Every route that needs a credential, with these ids: its name, method, path and body."""
    for route, case in CASES.items():
        method, path = route.split()
        yield route, method, path.replace("{id}", ids.get(case.of or "", NONE)), case.body
    yield MODELS, "GET", f"/v1/models/{model}", None
    for route in ACCESS:
        method, path = route.split()
        yield route, method, PREFIX + _filled(path, ids), BODIES.get(route, {}) if method == "POST" else None


async def test_every_route_has_a_case(gateway: Gateway) -> None:
    assert _router(gateway).routes == {*CASES, MODELS, ADMIN, *FOR_EVERYBODY}
    admin = create_application(gateway.app.admin_parts())
    routes = {
        f"{method} {route.path.removeprefix(PREFIX)}"
        for route in admin.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    assert routes | {CHAT_ROUTE} == set(ACCESS) | OPEN
    assert len(routes) == len([route for route in admin.routes if isinstance(route, APIRoute)])
    assert len(admin.routes) == len(routes), "nothing is mounted beside them"


async def test_nobody_gets_anything_without_a_good_key(gateway: Gateway, theirs: Side) -> None:
    tenant = theirs.tenant
    before = await rows_of(gateway.database_url, tenant)
    for route, method, path, body in _called(theirs.ids, theirs.own_model):
        for key in (None, "", "x", tenant.key[:-4] + "AAAA", tenant.key.swapcase(), f"{tenant.key} x"):
            answer = await gateway.request(method, path, body, key)
            assert answer.status == 401, (route, key, answer.status)
            _tells_nothing(route, await answer.text(), theirs)
        answer = await gateway.request(method, f"{path}?api_key={tenant.key}", body)
        assert answer.status == 401, route
    assert await rows_of(gateway.database_url, tenant) == before


async def test_a_key_without_the_scope_gets_nothing(gateway: Gateway, mine: Side) -> None:
    """Its own tenant's objects, even: the scope decides, before the id."""
    path = f"/projects/{mine.tenant.id}/api_keys"
    lacking = {scope: [one for one in SCOPES if one != scope] for scope in (MODEL, HOOKS, USAGE)}
    lacking[HOOKS].remove("webhooks.read")
    keys = {
        scope: (await gateway.admin("POST", path, {"name": "k", "scopes": scopes}))["value"]
        for scope, scopes in lacking.items()
    }
    reader = await gateway.admin("POST", path, {"name": "k", "scopes": ["webhooks.read"]})
    await gateway.refresh()
    before = await rows_of(gateway.database_url, mine.tenant)
    for route, method, path, body in _called(mine.ids, mine.own_model):
        case = CASES.get(route, Case(MODEL if route == MODELS else USAGE))
        answer = await gateway.request(method, path, body, keys[case.scope or USAGE])
        assert answer.status == (403 if case.scope else 401), (route, answer.status)
        error = (await answer.json())["error"]
        assert error["code"] == ("insufficient_permissions" if case.scope else "invalid_api_key")
        if case.scope == HOOKS:
            answer = await gateway.request(method, path, body, reader["value"])
            assert (answer.status == 403) == (method != "GET"), (route, answer.status)
    assert await rows_of(gateway.database_url, mine.tenant) == before


async def test_no_route_tells_or_changes_what_is_another_tenants(
    gateway: Gateway, theirs: Side, mine: Side
) -> None:
    """Duty F34: whoever belongs to one tenant gets, with every id of another's, what they get with an id of nobody's."""
    before = await rows_of(gateway.database_url, theirs.tenant)
    nobody = dict.fromkeys(theirs.ids, NONE)
    own_project = theirs.ids | {"project_id": mine.tenant.id}
    seen = 0
    for caller in mine.callers.values():
        for ids, model in ((theirs.ids, theirs.own_model), (own_project, theirs.own_model)):
            none = nobody | ({"project_id": mine.tenant.id} if ids is own_project else {})
            asked = zip(_called(ids, model), _called(none, "no-model"), strict=True)
            for (route, method, path, body), (_, _, nowhere, _) in asked:
                if path == nowhere or route in OF_ITS_OWN:
                    continue  # without an id: those are next
                status, text = await caller.ask(gateway, method, path, body)
                wanted = _expected(route, caller, is_own=ids is own_project)
                assert status == wanted, (route, caller.column, status, text)
                unknown = await caller.ask(gateway, method, nowhere, body)
                told = text.replace(path, nowhere)
                for name, id_ in [*ids.items(), ("model", model)]:
                    told = told.replace(id_, none.get(name, "no-model"))
                assert (status, told) == unknown, (route, caller.column)
                _tells_nothing(route, told, theirs)
                seen += 1
    assert seen > 200
    assert await rows_of(gateway.database_url, theirs.tenant) == before


def _expected(route: str, caller: Caller, *, is_own: bool) -> int:
    """`is_own`: the project in the path is the caller's, and only what is looked for in it is another's."""
    if route not in ACCESS:
        return 404 if caller.column == "api_key" else 401
    if caller.column == "api_key":
        return 404 if "api_key" in ACCESS[route] else 403
    is_hidden = "{project_id}" in route and not is_own
    return 404 if is_hidden or caller.column in ACCESS[route] else 403


async def test_what_a_tenant_is_told_does_not_depend_on_another(
    database_url: str, cache_url: str, tmp_path: Path, engine: FakeEngine
) -> None:
    """Every list and sum, with and without each filter that names somebody else's: as if the other did not exist."""
    clock = WallClock()
    async with Gateway(database_url, cache_url, tmp_path, clock=clock) as gateway:
        pool_id = await gateway.pool(engine)
        await gateway.route(pool_id)
        mine = await build(gateway, "mine", pool_id)
        clock.set(clock.now())  # what is shown of the present is the same then
        alone = await _told(gateway, mine, dict.fromkeys(SAID_OF.values(), NONE))
        theirs = await build(gateway, "theirs", pool_id)
        beside = await _told(gateway, mine, theirs.ids)
    assert sum(status == 200 for status, _ in alone.values()) > 60
    for asked, (status, text) in beside.items():
        _tells_nothing(asked, text, theirs)
        assert (status, text) == alone[asked], asked
    spent = [text for asked, (_, text) in alone.items() if "usage/completions None" in asked]
    assert spent
    assert all(re.search(r'"num_model_requests":[1-9]', text) for text in spent), (
        "there was something to add to"
    )


async def _told(gateway: Gateway, mine: Side, ids: dict[str, str]) -> dict[str, tuple[int, str]]:
    """What each of the tenant's callers is told by each list, under a name that is the same for any `ids`."""
    told = {}
    for route, path in _lists(mine):
        for name, url in _urls(gateway, route, path, ids):
            for kind, caller in mine.callers.items():
                status, text = await caller.ask(gateway, "GET", url, None)
                told[f"{kind} {route} {name}"] = (status, _LAST_USED.sub("", text))
    return told


def _lists(mine: Side) -> Iterator[tuple[str, str]]:
    """Each route that is asked without an id, or with no other than the project's: its template and path."""
    for route in [*CASES, *(row.replace(" ", f" {PREFIX}", 1) for row in ACCESS)]:
        method, template = route.split()
        path = template.replace("{project_id}", mine.tenant.id)
        if method == "GET" and "{" not in path and template not in NO_LISTS:
            yield template, path


def _urls(
    gateway: Gateway, template: str, path: str, ids: dict[str, str]
) -> Iterator[tuple[str | None, str]]:
    """Without a filter, and with each that takes an id."""
    described = json.loads(DOCUMENT.read_text(encoding="utf-8"))["paths"][template]["get"]
    parameters = {one["name"]: one for one in described.get("parameters", ())}
    since = gateway.app.clock.now() - timedelta(days=1)
    usual = {"start_time": str(int(since.timestamp())), "group_by": "project_id", "q": "canary"}
    needed = {name: value for name, value in usual.items() if parameters.get(name, {}).get("required")}
    for name in (None, *(name for name in SAID_OF if name in parameters)):
        query = needed | ({name: ids[SAID_OF[name]]} if name is not None else {})
        yield name, f"{path}?" + "&".join(f"{key}={value}" for key, value in query.items())


def _tells_nothing(route: str, text: str, of: Side) -> None:
    found = [mark for mark in of.marks if mark in text]
    assert not found, (route, found, text[:300])
