"""The caller of the admin API: pages, and every failure as one sentence."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.admin_client import AdminCallFailed, AdminClient


async def _projects(request: web.Request) -> web.Response:
    """Three, two a page."""
    assert request.headers["authorization"] == "Bearer tw-key"
    page = ["c"] if request.query.get("after") == "b" else ["a", "b"]
    data = [{"id": one, "asked": dict(request.query)} for one in page]
    return web.json_response({"data": data, "has_more": page != ["c"], "last_id": page[-1]})


async def _refused(request: web.Request) -> web.Response:
    error = {"message": "No such pool.", "type": "invalid_request_error", "param": "pool_id", "code": None}
    return web.json_response({"error": error}, status=404)


async def _stranger(request: web.Request) -> web.Response:
    return web.Response(text="<html>hello</html>", status=200)


@pytest.fixture
async def url() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/v1/organization/projects", _projects)
    app.router.add_post("/v1/organization/refused", _refused)
    app.router.add_get("/v1/organization/stranger", _stranger)
    async with TestServer(app) as server:
        yield str(server.make_url("/v1/"))


async def _said(url: str, method: str, *path: Any) -> str:
    async with AdminClient(url, "tw-key") as client:
        with pytest.raises(AdminCallFailed) as failure:
            await getattr(client, method)(*path)
    return str(failure.value)


async def test_all_pages_are_read(url: str) -> None:
    async with AdminClient(url, "tw-key") as client:
        found = await client.all("/projects", include_archived="true")
    assert [one["id"] for one in found] == ["a", "b", "c"]
    assert found[2]["asked"] == {"include_archived": "true", "limit": "100", "after": "b"}


async def test_failures_are_sentences(url: str) -> None:
    assert await _said(url, "post", "/refused", {}) == "No such pool. (pool_id)"
    assert "is no Tollway gateway: it answered 200 without a JSON object" in await _said(
        url, "get", "/stranger"
    )
    assert "is no Tollway gateway: it answered 404" in await _said(url, "delete", "/nothing")
    assert "http://127.0.0.1:1 cannot be reached" in await _said("http://127.0.0.1:1/v1", "get", "/projects")
    assert "cannot be reached" in await _said("not an address", "get", "/projects")
