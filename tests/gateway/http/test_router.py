"""Unknown paths, methods and models in the error table's shape."""

from __future__ import annotations

from tests.fakes.engine import FakeEngine
from tests.gateway.http.answers import BODY, CHAT, refused, row
from tests.harness import SERVED, Gateway


async def test_what_is_asked_for(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    key = tenant.key
    error = await refused(gateway, "POST", CHAT, BODY | {"model": "nothing"}, key=key)
    assert row(error) == (404, "invalid_request_error", "model_not_found")
    for path in ("/v1", "/v1/chat", "/v1/chat/completions/", "/v1/models/", "/v2/models"):
        error = await refused(gateway, "GET", path, key=key)
        assert row(error) == (404, "invalid_request_error", None)
    for method, path, allowed in (
        ("GET", CHAT, "POST"),
        ("POST", "/v1/models", "GET"),
        ("DELETE", f"/v1/models/{SERVED}", "GET"),
        ("PUT", "/healthz", "GET"),
    ):
        error = await refused(gateway, method, path, key=key)
        assert row(error) == (405, "invalid_request_error", None)
        assert error["headers"]["allow"] == allowed
