"""What every error answer has, checked; and its row of the error table."""

from __future__ import annotations

from typing import Any

from tests.harness import SERVED, Gateway

MESSAGES: Any = [{"role": "user", "content": "hi"}]
BODY: dict[str, Any] = {"model": SERVED, "messages": MESSAGES}
CHAT = "/v1/chat/completions"
GENERATES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": MESSAGES},
    "/v1/completions": {"prompt": "hi"},
    "/v1/embeddings": {"input": "hi"},
    "/v1/responses": {"input": "hi"},
}
"""What a request needs beside its model, by the routes that generate."""


async def refused(
    gateway: Gateway, method: str, path: str, body: Any = None, **options: Any
) -> dict[str, Any]:
    """Checks what every error answer has, and gives its status, error and headers."""
    answer = await gateway.request(method, path, body, **options)
    raw = await answer.json()
    assert set(raw) == {"error"}
    assert set(raw["error"]) == {"message", "type", "param", "code"}
    assert raw["error"]["message"]
    assert answer.headers["x-request-id"].startswith("req_")
    assert answer.headers["openai-processing-ms"].isdecimal()
    return {"status": answer.status, "headers": answer.headers, **raw["error"]}


def row(error: dict[str, Any]) -> tuple[int, str, str | None]:
    return error["status"], error["type"], error["code"]
