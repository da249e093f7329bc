"""Two small servers for the gateway's benchmark: a fixed upstream, and the barest relay to compare with.

    python -m tests.bench.relay upstream PORT
    python -m tests.bench.relay bare PORT UPSTREAM_URL

The upstream answers a streamed request with 64 chunks and a usage chunk, any other with one JSON body. Chunks are due
5 ms apart (`pace_ms` of the body) from the first on, however late one of them was. The bare relay is uvicorn and aiohttp, and nothing that a gateway is for.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import aiohttp
import uvicorn

CHUNKS = 64
PACE_MS = 5
USAGE = {"prompt_tokens": 300, "completion_tokens": CHUNKS, "total_tokens": 300 + CHUNKS}
HEAD = {"id": "chatcmpl-0123456789abcdef", "created": 1_700_000_000, "model": "bench"}


def _event(data: Any) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def _chunk(text: str) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None}
    return {**HEAD, "object": "chat.completion.chunk", "choices": [choice]}


CHUNK = _event(_chunk(" token"))
END = _event({**HEAD, "object": "chat.completion.chunk", "choices": [], "usage": USAGE}) + b"data: [DONE]\n\n"
MESSAGE = {"role": "assistant", "content": " token" * CHUNKS}
WHOLE = json.dumps(
    {
        **HEAD,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}],
        "usage": USAGE,
    }
).encode()
STATUS = {
    "epoch": "e", "state": "ready", "model": "bench", "served_model_names": ["bench"], "max_model_len": 8192,
    "pid": 1, "core_pid": 1, "running": 0, "waiting": 0, "kv_usage": 0.0, "request_ids": [],
}  # fmt: skip
LOAD = [(b"x-engine-epoch", b"e"), (b"x-engine-running", b"1"), (b"x-engine-waiting", b"0"),
        (b"x-engine-kv-usage", b"0.0")]  # fmt: skip


async def _body(receive: Any) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def upstream(scope: Any, receive: Any, send: Any) -> None:
    body = await _body(receive)
    if scope["method"] == "GET":  # how it is, in whatever words a router asks
        await _answer(send, json.dumps(STATUS).encode())
        return
    asked = json.loads(body)
    if not asked.get("stream"):
        await _answer(send, WHOLE)
        return
    headers = [(b"content-type", b"text/event-stream"), *LOAD]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    loop, pace_s = asyncio.get_running_loop(), asked.get("pace_ms", PACE_MS) / 1000
    began = loop.time()
    for number in range(1, CHUNKS + 1):
        await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
        await asyncio.sleep(max(0.0, began + number * pace_s - loop.time()))
    await send({"type": "http.response.body", "body": END})


async def _answer(send: Any, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *LOAD]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class BareRelay:
    def __init__(self, upstream_url: str) -> None:
        self._url = upstream_url
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=1024)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        body = await _body(receive)
        headers = {"content-type": "application/json"}
        async with self._session.post(self._url + scope["path"], data=body, headers=headers) as answer:
            passed = [(b"content-type", answer.headers["content-type"].encode())]
            await send({"type": "http.response.start", "status": answer.status, "headers": passed})
            async for data in answer.content.iter_any():
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


def main() -> None:
    role, port = sys.argv[1], int(sys.argv[2])
    app = upstream if role == "upstream" else BareRelay(sys.argv[3])
    uvicorn.run(
        app, host="127.0.0.1", port=port, loop="uvloop", http="httptools", ws="none", lifespan="off",
        log_config=None, access_log=False,
    )  # fmt: skip


if __name__ == "__main__":
    main()
