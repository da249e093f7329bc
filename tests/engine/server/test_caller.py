"""Keys on every route, and the gateway's headers."""

from __future__ import annotations

import pytest

from engine.server.app import Access, Route
from engine.server.caller import Caller, Keys, identify
from engine.server.errors import ApiError
from engine.server.exchange import Exchange
from engine.server.routes import ROUTES
from tests.engine.server.conftest import API_KEY, INTERNAL_KEY, Server

PUBLIC = {"/health", "/ready", "/metrics"}


def exchange(**headers: str) -> Exchange:
    pairs = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"method": "GET", "path": "/", "query_string": b"", "headers": pairs}
    return Exchange(scope, None, None)  # type: ignore[arg-type]  # only headers are read


def caller(internal: bool = True, **headers: str) -> Caller:
    return identify(exchange(**headers), internal=internal, draw_id=lambda: "drawn")


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_every_route_is_denied_by_default(server: Server, route: Route) -> None:
    """Duty engine-17: and a new one says which."""
    assert (route.access is Access.PUBLIC) == (route.path in PUBLIC)
    assert (route.access is Access.INTERNAL) == route.path.startswith("/internal")
    path = route.path.replace("*", "x")
    refused = {None: 401, "wrong": 401, "": 401, API_KEY: 401 if route.access is Access.INTERNAL else None}
    for key, status in refused.items():
        async with server.session(key) as session, session.request(route.method, path, data=b"") as answer:
            if route.access is Access.PUBLIC:
                assert answer.status == 200
            elif status is None:
                assert answer.status != 401
            else:
                assert answer.status == status
                error = (await answer.json())["error"]
                assert sorted(error) == ["code", "message", "param", "type"]
                assert error["code"] == (None if key is None else "invalid_api_key")


@pytest.mark.parametrize("path", ["/nothing", "/v1/nothing", "/internal/nothing", "/docs", "/redoc"])
async def test_unknown_routes_are_denied_too(server: Server, path: str) -> None:
    async with server.session(None) as session, session.get(path) as answer:
        assert answer.status == 401
    async with server.session(INTERNAL_KEY) as session, session.get(path) as answer:
        assert answer.status == 404


def test_without_keys_only_internal_is_closed() -> None:
    keys = Keys((), None)
    assert keys.check(exchange(), internal_only=False) is False
    with pytest.raises(ApiError):
        keys.check(exchange(authorization="Bearer "), internal_only=True)


def test_an_internal_key_alone_leaves_the_openai_routes_open() -> None:
    keys = Keys((), "inner")
    assert keys.check(exchange(authorization="bearer inner"), internal_only=True) is True
    for header in ({}, {"authorization": "Bearer other"}, {"authorization": "Basic inner"}):
        assert keys.check(exchange(**header), internal_only=False) is False
        with pytest.raises(ApiError):
            keys.check(exchange(**header), internal_only=True)


def test_several_api_keys() -> None:
    keys = Keys(("a", "b"), "inner")
    assert keys.check(exchange(authorization="Bearer b"), internal_only=False) is False
    with pytest.raises(ApiError):
        keys.check(exchange(authorization="Bearer b"), internal_only=True)


def test_gateway_headers() -> None:
    found = caller(
        x_request_id="req-7",
        x_gateway_request_id="gw-1",
        x_gateway_attempt="2",
        x_gateway_inference_fairness_id="f",
        x_fairness_weight="2.5",
        x_request_class="batch",
        x_slo_ttft_ms="1500",
        x_slo_tpot_ms="33.3",
        x_max_kv_fraction="0.25",
        x_cache_salt="00ff",
        x_max_prompt_tokens="10",
        x_max_output_tokens="20",
        x_emit_token_ids="1",
    )
    assert found == Caller(
        internal=True,
        request_id="req-7",
        gateway_request_id="gw-1",
        attempt=2,
        fairness_id="f",
        fairness_weight=2.5,
        request_class="batch",
        ttft_ms=1500.0,
        tpot_ms=33.3,
        max_kv_fraction=0.25,
        cache_salt=b"\x00\xff",
        max_prompt_tokens=10,
        max_output_tokens=20,
        emit_token_ids=True,
    )


def test_internal_headers_of_others_do_not_count() -> None:
    theirs = {"x_cache_salt": "00", "x_request_class": "batch", "x_gateway_request_id": "gw"}
    found = caller(False, **theirs, x_slo_ttft_ms="1", x_slo_tpot_ms="1", x_max_kv_fraction="0.1")
    assert found == Caller(request_id="req-drawn")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x_gateway_attempt", "-1"),
        ("x_gateway_attempt", "two"),
        ("x_fairness_weight", "0"),
        ("x_fairness_weight", "inf"),
        ("x_slo_ttft_ms", "soon"),
        ("x_slo_ttft_ms", "0"),
        ("x_slo_tpot_ms", "-3"),
        ("x_max_kv_fraction", "1.01"),
        ("x_max_kv_fraction", "0"),
        ("x_request_class", "urgent"),
        ("x_cache_salt", "xyz"),
        ("x_cache_salt", "0"),
        ("x_max_output_tokens", "0"),
        ("x_emit_token_ids", "2"),
        ("x_gateway_request_id", "a b"),
        ("x_gateway_request_id", "x" * 201),
    ],
)
def test_headers_that_make_no_sense(name: str, value: str) -> None:
    with pytest.raises(ApiError) as caught:
        caller(**{name: value})
    assert caught.value.param == name.replace("_", "-")


def test_strange_request_ids_are_replaced() -> None:
    assert caller(x_request_id="a\x01b").request_id == "req-drawn"
    assert caller(x_request_id="x" * 300).request_id == "req-drawn"
