"""Records how a server of somebody else's answers what the gateway sends it: `tests/contract/peers/NAME.json`.

    python -m tests.contract.record_peer vllm http://127.0.0.1:8000 --model tiny --key secret --version 0.32.0

Requests are made by the gateway's own dialect for such servers, so that a recording is what would be met in
service. `tests/gateway/upstream/test_peers.py` replays them. Streams are kept as the pieces in which they came.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from gateway.upstream.dialect import Order
from gateway.upstream.generic import GenericDialect
from gateway.wire.request import Endpoint, parse_generation

PEERS = Path(__file__).parent / "peers"
SERVED = "served-model"
KEPT_HEADERS = ("content-type", "retry-after", "x-request-id")
WORDS = "one two three four five six seven eight"
TURN = [{"role": "user", "content": WORDS}]
LIMITS = {"max_tokens": 6, "temperature": 0, "seed": 7}


@dataclass(frozen=True)
class Case:
    name: str
    endpoint: Endpoint
    body: dict[str, Any]
    key: str | None = None
    """None: the right one."""
    upstream_model: str | None = None


CASES = (
    Case("chat", "chat.completions", {"messages": TURN, **LIMITS}),
    Case("chat_again", "chat.completions", {"messages": TURN, **LIMITS}),
    Case("chat_stream", "chat.completions", {"messages": TURN, "stream": True, **LIMITS}),
    Case(
        "chat_two_streamed",
        "chat.completions",
        {"messages": TURN, "stream": True, "n": 2, **LIMITS, "temperature": 0.7},
    ),
    Case(
        "chat_logprobs", "chat.completions", {"messages": TURN, "logprobs": True, "top_logprobs": 2, **LIMITS}
    ),
    Case("completion", "completions", {"prompt": WORDS, **LIMITS}),
    Case("completion_stream", "completions", {"prompt": WORDS, "stream": True, **LIMITS}),
    Case("too_long", "chat.completions", {"messages": [{"role": "user", "content": WORDS * 300}], **LIMITS}),
    Case("too_long_stream", "completions", {"prompt": WORDS * 300, "stream": True, **LIMITS}),
    Case("bad_value", "chat.completions", {"messages": TURN, **LIMITS, "temperature": "warm"}),
    Case("unknown_model", "chat.completions", {"messages": TURN, **LIMITS}, upstream_model="another"),
    Case("wrong_key", "chat.completions", {"messages": TURN, **LIMITS}, key="wrong"),
)


def prepared(case: Case, url: str, key: str | None, model: str) -> tuple[str, dict[str, str], bytes]:
    """URL, headers and body as the gateway sends them."""
    request = parse_generation(case.endpoint, json.dumps({"model": SERVED, **case.body}).encode())
    order = Order(
        request_id="req-recorded",
        attempt=0,
        upstream_model=case.upstream_model or model,
        fairness_id="",
        fairness_weight=1,
        request_class="interactive",
        cache_salt="",
        max_prompt_tokens=1 << 20,
        max_output_tokens=int(case.body["max_tokens"]),
        seed=None,
    )
    call = GenericDialect().prepare(url, case.key or key, request, order)
    return call.url, dict(call.headers), call.body


async def record(case: Case, url: str, key: str | None, model: str) -> dict[str, Any]:
    address, headers, body = prepared(case, url, key, model)
    async with (
        aiohttp.ClientSession() as session,
        session.post(address, headers=headers, data=body) as answer,
    ):
        pieces = [piece.decode() async for piece in answer.content.iter_any()]
        kept = {name: answer.headers[name] for name in KEPT_HEADERS if name in answer.headers}
        return {"sent": json.loads(body), "status": answer.status, "headers": kept, "pieces": pieces}


async def fetched(url: str, key: str | None) -> str:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return await answer.text() if answer.status == 200 else ""


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("name", "url"):
        parser.add_argument(name)
    for name in ("--model", "--version"):
        parser.add_argument(name, required=True)
    parser.add_argument("--key")
    arguments = parser.parse_args()
    recorded = {
        case.name: await record(case, arguments.url, arguments.key, arguments.model) for case in CASES
    }
    metrics = await fetched(f"{arguments.url}/metrics", arguments.key)
    whole = {
        "server": arguments.name,
        "version": arguments.version,
        "model": arguments.model,
        "models": await fetched(f"{arguments.url}/v1/models", arguments.key),
        "metrics": [
            line for line in metrics.splitlines() if "_bucket" not in line and "_created" not in line
        ],
        "answers": recorded,
    }
    PEERS.mkdir(exist_ok=True)
    (PEERS / f"{arguments.name}.json").write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
