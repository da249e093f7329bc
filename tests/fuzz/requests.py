"""Requests that somebody may send: good ones, good ones with something changed, and hostile ones.

Every request is drawn from one `random.Random`, so that a seed and a number name it. What is good or bad is the
tables' knowledge (`tests/engine/server/bad_values`); here they are only mixed. Knows no server.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.engine.server.bad_values import ROWS

PATHS = {"chat": "/v1/chat/completions", "completion": "/v1/completions"}
OTHER_PATHS = ("/v1/embeddings", "/tokenize", "/detokenize")
WORDS = (
    "lamp",
    "sea",
    "ships at dusk",
    "\u00fc\u00df",
    "\U0001f6a2",
    "\x00",
    "<|eot_id|>",
    " ",
    "a" * 300,
    "<tool_call>",
)
LEAVE_AFTER_S = 0.02


@dataclass(frozen=True)
class Request:
    path: str
    body: bytes
    leaves: bool = False
    """The caller goes away soon after it asked."""


def draw(chance: random.Random) -> Request:
    kind = chance.choices((_good, _changed, _torn, _elsewhere), (4, 4, 1, 1))[0]
    return kind(chance)


def _good(chance: random.Random) -> Request:
    endpoint = chance.choice(tuple(PATHS))
    return _request(chance, PATHS[endpoint], good_body(chance, endpoint))


def _changed(chance: random.Random) -> Request:
    """One to three fields that the tables call wrong, or values of any kind at any place."""
    endpoint = chance.choice(tuple(PATHS))
    body = good_body(chance, endpoint)
    for _ in range(chance.randint(1, 3)):
        if chance.random() < 0.6:
            row = chance.choice([row for row in ROWS if row.at in (endpoint, "both")])
            body |= {**row.beside, row.field: row.value}
        else:
            _put_anything(chance, body)
    return _request(chance, PATHS[endpoint], body)


def _torn(chance: random.Random) -> Request:
    """Bytes that were JSON once."""
    endpoint = chance.choice(tuple(PATHS))
    raw = bytearray(json.dumps(good_body(chance, endpoint)).encode())
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(raw))
        raw[place : place + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
    hostile = (bytes(raw), b"[" * 50_000, b'{"model":' * 2000, b"\xff\xfe", b"", b"nul", b'{"a":1e999}')
    return Request(PATHS[endpoint], chance.choice(hostile))


def _elsewhere(chance: random.Random) -> Request:
    body = {"model": "m", chance.choice(("input", "prompt", "tokens", "messages")): _anything(chance, 3)}
    return _request(chance, chance.choice(OTHER_PATHS), body)


def _request(chance: random.Random, path: str, body: Mapping[str, Any]) -> Request:
    return Request(path, json.dumps(body).encode("utf-8", "surrogatepass"), chance.random() < 0.1)


def good_body(chance: random.Random, endpoint: str) -> dict[str, Any]:
    body: dict[str, Any] = {"model": "m", "max_tokens": chance.randint(1, 24)}
    if endpoint == "chat":
        roles = ("system", "user", "assistant", "developer")
        turns = range(chance.randint(1, 4))
        body["messages"] = [{"role": chance.choice(roles), "content": _text(chance)} for _ in turns]
    else:
        prompts = (_text(chance), [_text(chance), _text(chance)], [chance.randrange(500) for _ in range(9)])
        body["prompt"] = chance.choice(prompts)
    for name in chance.sample(tuple(OPTIONS), chance.randint(0, 5)):
        body[name] = OPTIONS[name](chance)
    if endpoint == "chat":
        body.pop("echo", None)
        if "logprobs" in body:
            body |= {"logprobs": True, "top_logprobs": body["logprobs"]}
    if body.get("tools") and endpoint != "chat":
        del body["tools"]
    return body


def _tools(chance: random.Random) -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {"day": {"type": "integer"}}, "required": ["day"]}
    return [{"type": "function", "function": {"name": chance.choice("fg"), "parameters": schema}}]


def _structure(chance: random.Random) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"enum": [1, "x"]}}}
    kinds = ({"json": schema}, {"regex": "[a-z]{1,8}"}, {"choice": ["yes", "no"]}, {"json_object": True})
    return dict(chance.choice(kinds))


OPTIONS: Mapping[str, Callable[[random.Random], Any]] = {
    "temperature": lambda chance: chance.choice((0, 0.0, 0.7, 2, 1e-9)),
    "top_p": lambda chance: chance.choice((0, 1e-12, 0.5, 1)),
    "top_k": lambda chance: chance.choice((-1, 0, 1, 5, 2**31 - 1)),
    "min_p": lambda chance: chance.choice((0, 0.3, 1)),
    "repetition_penalty": lambda chance: chance.choice((0.01, 1, 10)),
    "presence_penalty": lambda chance: chance.choice((-2, 0, 2)),
    "frequency_penalty": lambda chance: chance.choice((-2, 0, 2)),
    "seed": lambda chance: chance.choice((0, 1, -(2**63), 2**63 - 1)),
    "n": lambda chance: chance.randint(1, 4),
    "stop": lambda chance: chance.choice(("e", ["a", "\n"], ["\U0001f6a2"])),
    "stop_token_ids": lambda chance: [chance.randrange(500)],
    "min_tokens": lambda chance: chance.randint(0, 30),
    "ignore_eos": lambda chance: True,
    "logit_bias": lambda chance: {str(chance.randrange(500)): chance.choice((-100, 0, 100))},
    "allowed_token_ids": lambda chance: [chance.randrange(500) for _ in range(3)],
    "bad_words": lambda chance: [chance.choice(WORDS)],
    "logprobs": lambda chance: chance.choice((0, 1, 20)),
    "prompt_logprobs": lambda chance: chance.choice((0, 3)),
    "echo": lambda chance: True,
    "stream": lambda chance: True,
    "return_token_ids": lambda chance: True,
    "cache_salt": lambda chance: chance.choice(WORDS),
    "structured_outputs": _structure,
    "tools": _tools,
    "user": lambda chance: None,
}


def _text(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, 6)))


def _put_anything(chance: random.Random, body: dict[str, Any]) -> None:
    name = chance.choice((*body, *OPTIONS, "unheard_of"))
    body[name] = _anything(chance, 3)


def _anything(chance: random.Random, depth: int) -> Any:
    plain: tuple[Any, ...] = (None, True, 0, -1, 2**70, 1.5, 1e308, "", _text(chance), "\ud800", [], {})
    if depth == 0 or chance.random() < 0.5:
        return chance.choice(plain)
    inside = [_anything(chance, depth - 1) for _ in range(chance.randint(1, 3))]
    if chance.random() < 0.5:
        return inside
    return {chance.choice(("role", "content", "type", "text", "x")): each for each in inside}
