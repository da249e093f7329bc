"""The JSON a FakeEngine sends: OpenAI's objects and the engine's own, built from plain values.

Knows the wire shapes only; what happens when is fakes/engine.py's.
"""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0

    def json(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


def sse(data: Any) -> bytes:
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def error(message: str, type_: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": type_, "param": param, "code": code}}


def chunk(chat: bool, head: dict[str, Any], text: str, first: bool, finish: str | None = None) -> bytes:
    """One streamed delta; the first one of a chat carries the role."""
    if chat:
        delta = {"role": "assistant"} if first else {}
        delta |= {"content": text} if text or first else {}
        choice: dict[str, Any] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return sse({**head, "object": "chat.completion.chunk", "choices": [choice]})
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
    return sse({**head, "object": "text_completion", "choices": [choice]})


def usage_chunk(chat: bool, head: dict[str, Any], usage: Usage) -> bytes:
    name = "chat.completion.chunk" if chat else "text_completion"
    return sse({**head, "object": name, "choices": [], "usage": usage.json()})


def whole(chat: bool, head: dict[str, Any], text: str, finish: str, usage: Usage | None) -> dict[str, Any]:
    choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish}
    if chat:
        choice["message"] = {"role": "assistant", "content": text, "refusal": None}
        body = {**head, "object": "chat.completion", "choices": [choice]}
    else:
        choice["text"] = text
        body = {**head, "object": "text_completion", "choices": [choice]}
    return body | ({"usage": usage.json()} if usage is not None else {})


def embeddings(name: str, body: dict[str, Any], usage: Usage | None) -> dict[str, Any]:
    """One vector per input: how long its text is, and which it is; as numbers or as their bytes."""
    inputs = body["input"] if isinstance(body["input"], list) else [body["input"]]
    vectors = [(float(len(str(text))), float(index)) for index, text in enumerate(inputs)]
    if body.get("encoding_format") == "base64":
        data: list[Any] = [base64.b64encode(struct.pack("<2f", *vector)).decode() for vector in vectors]
    else:
        data = [list(vector) for vector in vectors]
    found = [
        {"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(data)
    ]
    counts = {"prompt_tokens": usage.prompt_tokens, "total_tokens": usage.prompt_tokens} if usage else None
    return {"object": "list", "model": name, "data": found} | ({"usage": counts} if counts else {})


def model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "tollway"}


def words(body: dict[str, Any]) -> list[str]:
    """What a request asks, as the fake's tokens: one per word, of every message or of the prompt."""
    if "messages" in body:
        return [word for message in body["messages"] for word in _text(message.get("content")).split()]
    prompt = body.get("prompt", body.get("input", ""))
    return prompt.split() if isinstance(prompt, str) else [str(part) for part in prompt]


def last_words(body: dict[str, Any]) -> list[str]:
    if body.get("messages"):
        return _text(body["messages"][-1].get("content")).split()
    return words(body)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(part.get("text", "") for part in content)
    return content or ""
