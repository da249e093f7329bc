"""Requests that somebody may send: good ones, good ones with something changed, and hostile ones.

Every request is drawn from one `random.Random`, so that a seed and a number name it. What is good or bad is the
tables' knowledge (`tests/engine/server/bad_values`); here they are only mixed. Knows no server.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.engine.server.bad_values import ROWS
from tests.fuzz.grammars import FORMATS, OUTPUTS, TOOLS, choice_of

PATHS = {"chat": "/v1/chat/completions", "completion": "/v1/completions"}
OTHER_PATHS = ("/v1/embeddings", "/tokenize", "/detokenize", "/internal/abort", "/internal/resume")
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
TERMS: Mapping[str, tuple[str, ...]] = {
    "x-gateway-request-id": ("gw-1", "gw-2", "", "a b", "x" * 201),
    "x-gateway-attempt": ("0", "2", "-1", "1.5"),
    "x-gateway-inference-fairness-id": ("a", "b", "c"),
    "x-fairness-weight": ("1", "0.5", "1000", "0", "-1", "nan"),
    "x-request-class": ("interactive", "batch", "vip"),
    "x-slo-ttft-ms": ("1", "50.5", "0"),
    "x-slo-tpot-ms": ("1", "20", "1e3"),
    "x-max-kv-fraction": ("0.1", "1", "1.1"),
    "x-cache-salt": ("", "0aFF", "0", "zz"),
    "x-max-prompt-tokens": ("0", "5", "1000", "-5"),
    "x-max-output-tokens": ("1", "3", "0"),
    "x-emit-token-ids": ("1", "0", "yes"),
    "content-encoding": ("identity", "gzip"),
    "authorization": ("Bearer internal", "Bearer wrong", "Basic x"),
    "content-type": ("text/plain", "application/x-www-form-urlencoded"),
}
"""Values of headers, most of them good."""


@dataclass(frozen=True)
class Request:
    path: str
    body: bytes
    leaves: bool = False
    """The caller goes away soon after it asked."""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut_at: float | None = None
    """A stream that is cut after this share of its blocks and gone on with."""


def draw(chance: random.Random) -> Request:
    kinds = (_good, _changed, _call, _embed, _go_on, _torn, _elsewhere, _with_terms)
    return chance.choices(kinds, (35, 35, 5, 5, 5, 5, 5, 5))[0](chance)


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


def _call(chance: random.Random) -> Request:
    """One that must call, with room to do so; the template leaves no reasoning to be done, nearly always."""
    named = {"type": "function", "function": {"name": "f"}}
    body = {
        "model": "m",
        "messages": _messages(chance),
        "tools": _tools(chance),
        "tool_choice": chance.choice(("required", named)),
        "n": chance.randint(1, 4),
        "max_tokens": 90,
        "temperature": 1.4,
        "seed": chance.randrange(1000),
        "chat_template_kwargs": {"closed": chance.random() < 0.9},
        "stream": chance.random() < 0.5,
    }
    return _request(chance, PATHS["chat"], body)


def _embed(chance: random.Random) -> Request:
    body = {"model": "m", "input": chance.choice((_text(chance), _prompts(chance)))}
    options: Mapping[str, Callable[[], Any]] = {
        "encoding_format": lambda: chance.choice(("float", "base64")),
        "dimensions": lambda: chance.choice((1, 3, 64, 65)),
        "add_special_tokens": lambda: chance.random() < 0.5,
        "cache_salt": lambda: chance.choice(WORDS),
    }
    body |= {name: options[name]() for name in chance.sample(tuple(options), chance.randint(0, 3))}
    return _request(chance, "/v1/embeddings", body)


def _go_on(chance: random.Random) -> Request:
    """A stream that is cut somewhere, and gone on with."""
    endpoint = chance.choice(tuple(PATHS))
    body = good_body(chance, endpoint) | {"stream": True, "prompt_logprobs": None}
    headers = {"x-emit-token-ids": "1"}
    return Request(PATHS[endpoint], _json(body), headers=headers, cut_at=chance.random())


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
    names = ("input", "prompt", "tokens", "messages", "request_id", "start", "outputs", "request")
    body = {"model": "m", **{name: _anything(chance, 3) for name in chance.sample(names, 2)}}
    if chance.random() < 0.3:
        body = {"messages": _messages(chance), "tools": choice_of(chance, TOOLS), "return_token_strs": True}
        return _request(chance, "/tokenize", body)
    return _request(chance, chance.choice(OTHER_PATHS), body)


def _with_terms(chance: random.Random) -> Request:
    """What only the gateway sends, and not always well."""
    plain = _good(chance)
    names = chance.sample(tuple(TERMS), chance.randint(1, 4))
    headers = {name: chance.choice(TERMS[name]) for name in names}
    return Request(plain.path, plain.body, plain.leaves, headers)


def _request(chance: random.Random, path: str, body: Mapping[str, Any]) -> Request:
    return Request(path, _json(body), chance.random() < 0.1)


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body).encode("utf-8", "surrogatepass")


def good_body(chance: random.Random, endpoint: str) -> dict[str, Any]:
    """One that keeps the rules between fields too, nearly always."""
    body: dict[str, Any] = {"model": "m", "max_tokens": chance.randint(1, 24)}
    if endpoint == "chat":
        body["messages"] = _messages(chance)
    else:
        body["prompt"] = _prompts(chance) if chance.random() < 0.7 else _text(chance)
    options = {**OPTIONS, **(CHAT_OPTIONS if endpoint == "chat" else COMPLETION_OPTIONS)}
    for name in chance.sample(tuple(options), chance.randint(0, 6)):
        body[name] = options[name](chance)
    if body.get("stream"):
        body.pop("prompt_logprobs", None)
    if "top_logprobs" in body:
        body["logprobs"] = True
    if "tool_choice" in body:
        body |= {
            "tools": _tools(chance),
            "max_tokens": chance.choice((24, 90)),
            "max_completion_tokens": None,
        }
    if body.get("structured_outputs"):
        body.pop("response_format", None)
    body["min_tokens"] = min(body.get("min_tokens", 0), body["max_tokens"])
    return body


def _messages(chance: random.Random) -> list[dict[str, Any]]:
    found = []
    for _ in range(chance.randint(1, 4)):
        role = chance.choice(("system", "user", "assistant", "developer", "tool"))
        text = _text(chance)
        content = text if chance.random() < 0.8 else [{"type": "text", "text": text}]
        found.append({"role": role, "content": content})
        if role == "assistant" and chance.random() < 0.5:
            function = {"name": "f", "arguments": chance.choice(('{"day": 1}', "{broken", "", "[1]"))}
            found[-1] |= {"tool_calls": [{"id": "c", "type": "function", "function": function}]}
        if role == "assistant" and chance.random() < 0.2:
            found[-1]["reasoning_content"] = text
    return found


def _prompts(chance: random.Random) -> Any:
    ids = [chance.randrange(500) for _ in range(chance.randint(1, 40))]
    return chance.choice(([_text(chance), _text(chance)], ids, [ids, ids[:1]]))


def _tools(chance: random.Random) -> Any:
    return choice_of(chance, TOOLS)


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
    "include_stop_str_in_output": lambda chance: True,
    "min_tokens": lambda chance: chance.randint(0, 24),
    "ignore_eos": lambda chance: True,
    "logit_bias": lambda chance: {str(chance.randrange(500)): chance.choice((-100, 0, 100))},
    "allowed_token_ids": lambda chance: [chance.randrange(500) for _ in range(3)],
    "bad_words": lambda chance: [chance.choice(WORDS[:7])],
    "prompt_logprobs": lambda chance: chance.choice((0, 3)),
    "echo": lambda chance: True,
    "stream": lambda chance: True,
    "return_token_ids": lambda chance: True,
    "return_tokens_as_token_ids": lambda chance: True,
    "skip_special_tokens": lambda chance: False,
    "cache_salt": lambda chance: chance.choice(WORDS),
    "priority": lambda chance: chance.choice((-5, 0, 2**31 - 1)),
    "structured_outputs": lambda chance: choice_of(chance, OUTPUTS),
    "response_format": lambda chance: choice_of(chance, FORMATS),
    "user": lambda chance: "u",
}
CHAT_OPTIONS: Mapping[str, Callable[[random.Random], Any]] = {
    "max_completion_tokens": lambda chance: 24,
    "top_logprobs": lambda chance: chance.choice((0, 1, 20)),
    "tools": _tools,
    "tool_choice": lambda chance: chance.choice(
        ("none", "auto", "required", {"type": "function", "function": {"name": "f"}})
    ),
    "parallel_tool_calls": lambda chance: False,
    "reasoning_effort": lambda chance: "low",
    "chat_template_kwargs": lambda chance: chance.choice(({"think": True}, {"unheard_of": [1, {}]})),
    "add_generation_prompt": lambda chance: False,
    "add_special_tokens": lambda chance: True,
}
COMPLETION_OPTIONS: Mapping[str, Callable[[random.Random], Any]] = {
    "logprobs": lambda chance: chance.choice((0, 1, 20)),
    "add_special_tokens": lambda chance: chance.random() < 0.5,
}


def _text(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, 6)))


def _put_anything(chance: random.Random, body: dict[str, Any]) -> None:
    name = chance.choice((*body, *OPTIONS, *CHAT_OPTIONS, "stream_options", "unheard_of"))
    body[name] = _anything(chance, 3)


def _anything(chance: random.Random, depth: int) -> Any:
    plain: tuple[Any, ...] = (None, True, 0, -1, 2**70, 1.5, 1e308, "", _text(chance), "\ud800", [], {})
    if depth == 0 or chance.random() < 0.5:
        return chance.choice(plain)
    inside = [_anything(chance, depth - 1) for _ in range(chance.randint(1, 3))]
    if chance.random() < 0.5:
        return inside
    return {chance.choice(("role", "content", "type", "text", "x")): each for each in inside}
