"""OpenAI's answer documents and stream events, for chat and for completions.

A stream's constant parts are encoded once; a chunk costs one JSON string and a concatenation. Knows the shape of
answers and nothing of how they come about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import orjson

from engine.messages import TokenLogprobs
from engine.server.choice import Delta
from engine.text.detokenizer import TokenBytes

DONE = b"data: [DONE]\n\n"
_LOWEST = -9999.0
"""Stands for log 0, which JSON cannot write."""


class Usage:
    """Token counts of one HTTP request, as the caller sees them."""

    __slots__ = ("cached_tokens", "completion_tokens", "prompt_tokens")

    def __init__(self, prompt_tokens: int) -> None:
        self.prompt_tokens = prompt_tokens
        self.cached_tokens = 0
        self.completion_tokens = 0

    def document(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


class Shape(Protocol):
    """What differs between the two endpoints' answers."""

    def opening(self, index: int) -> bytes:
        """Events before the first text of a choice."""
        ...

    def chunk(self, delta: Delta, usage: Usage | None) -> bytes:
        """One or two events: the text, then the end if it is there."""
        ...

    def usage_chunk(self, usage: Usage) -> bytes: ...

    def whole(self, deltas: Sequence[Delta], usage: Usage) -> bytes: ...


class _Base:
    """Prefix and suffix of every event of one stream."""

    def __init__(self, *, id_: str, created: int, model: str, kind: str, chunk_kind: str) -> None:
        self._head = {"id": id_, "object": kind, "created": created, "model": model}
        head = orjson.dumps({**self._head, "object": chunk_kind})
        self._prefix = b"data: " + head[:-1] + b',"choices":['

    def usage_chunk(self, usage: Usage) -> bytes:
        return self._prefix + b'],"usage":' + orjson.dumps(usage.document()) + b"}\n\n"

    def _event(self, choice: bytes, usage: Usage | None) -> bytes:
        if usage is None:
            return self._prefix + choice + b"]}\n\n"
        return self._prefix + choice + b'],"usage":' + orjson.dumps(usage.document()) + b"}\n\n"

    def _document(self, choices: list[dict[str, Any]], usage: Usage, extra: dict[str, Any]) -> bytes:
        return orjson.dumps({**self._head, "choices": choices, "usage": usage.document(), **extra})


class ChatShape(_Base):
    def __init__(
        self,
        *,
        id_: str,
        created: int,
        model: str,
        vocabulary: TokenBytes,
        prompt_token_ids: list[int] | None = None,
    ) -> None:
        super().__init__(
            id_=id_, created=created, model=model, kind="chat.completion", chunk_kind="chat.completion.chunk"
        )
        self._vocabulary = vocabulary
        self._prompt = prompt_token_ids
        """Set when the caller wants token ids."""

    def opening(self, index: int) -> bytes:
        delta = b'{"index":%d,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}'
        event = self._event(delta % index, None)
        if self._prompt is not None and index == 0:
            event = event[:-3] + b',"prompt_token_ids":' + orjson.dumps(self._prompt) + b"}\n\n"
        return event

    def chunk(self, delta: Delta, usage: Usage | None) -> bytes:
        event = b""
        if delta.text or delta.logprobs:
            logprobs = orjson.dumps(self._logprobs(delta)) if delta.logprobs else b"null"
            choice = b'{"index":%d,"delta":{"content":%b},"logprobs":%b,"finish_reason":null%b}' % (
                *(delta.index, orjson.dumps(delta.text), logprobs),
                self._token_ids(delta) if delta.finish_reason is None else b"",
            )
            event = self._event(choice, usage)
        if delta.finish_reason is not None:
            choice = b'{"index":%d,"delta":{},"logprobs":null,"finish_reason":%b,"stop_reason":%b%b}' % (
                *(delta.index, orjson.dumps(delta.finish_reason), orjson.dumps(delta.stop_reason)),
                self._token_ids(delta),
            )
            event += self._event(choice, usage)
        return event

    def whole(self, deltas: Sequence[Delta], usage: Usage) -> bytes:
        choices = []
        for delta in deltas:
            choice: dict[str, Any] = {
                "index": delta.index,
                "message": {"role": "assistant", "content": delta.text, "refusal": None},
                "logprobs": self._logprobs(delta) if delta.logprobs else None,
                "finish_reason": delta.finish_reason,
                "stop_reason": delta.stop_reason,
            }
            if self._prompt is not None:
                choice["token_ids"] = delta.token_ids
            choices.append(choice)
        extra = {} if self._prompt is None else {"prompt_token_ids": self._prompt}
        return self._document(choices, usage, extra)

    def _token_ids(self, delta: Delta) -> bytes:
        return b"" if self._prompt is None else b',"token_ids":' + orjson.dumps(delta.token_ids)

    def _logprobs(self, delta: Delta) -> dict[str, Any]:
        content = []
        for token_id, values in delta.logprobs:
            entry = self._entry(token_id, values.token_logprob)
            pairs = zip(values.top_ids, values.top_logprobs, strict=True)
            content.append({**entry, "top_logprobs": [self._entry(index, value) for index, value in pairs]})
        return {"content": content, "refusal": None}

    def _entry(self, token_id: int, logprob: float) -> dict[str, Any]:
        raw = self._vocabulary.token_bytes(token_id)
        return {"token": raw.decode("utf-8", "replace"), "logprob": _finite(logprob), "bytes": list(raw)}


class CompletionShape(_Base):
    def __init__(
        self,
        *,
        id_: str,
        created: int,
        model: str,
        vocabulary: TokenBytes,
        with_token_ids: bool = False,
    ) -> None:
        super().__init__(
            id_=id_, created=created, model=model, kind="text_completion", chunk_kind="text_completion"
        )
        self._vocabulary = vocabulary
        self._with_token_ids = with_token_ids
        self._offsets: dict[int, int] = {}
        """Characters of each choice that its logprobs have covered."""

    def opening(self, index: int) -> bytes:
        return b""

    def chunk(self, delta: Delta, usage: Usage | None) -> bytes:
        logprobs = orjson.dumps(self._logprobs(delta)) if delta.logprobs else b"null"
        choice = b'{"index":%d,"text":%b,"logprobs":%b,"finish_reason":%b' % (
            *(delta.index, orjson.dumps(delta.text), logprobs),
            orjson.dumps(delta.finish_reason),
        )
        if delta.finish_reason is not None:
            choice += b',"stop_reason":' + orjson.dumps(delta.stop_reason)
        if self._with_token_ids:
            choice += b',"token_ids":' + orjson.dumps(delta.token_ids)
        return self._event(choice + b"}", usage)

    def whole(self, deltas: Sequence[Delta], usage: Usage) -> bytes:
        choices = []
        for delta in deltas:
            choice: dict[str, Any] = {
                "index": delta.index,
                "text": delta.text,
                "logprobs": self._logprobs(delta) if delta.logprobs else None,
                "finish_reason": delta.finish_reason,
                "stop_reason": delta.stop_reason,
            }
            if self._with_token_ids:
                choice["token_ids"] = delta.token_ids
            choices.append(choice)
        return self._document(choices, usage, {})

    def _logprobs(self, delta: Delta) -> dict[str, Any]:
        tokens: list[str] = []
        offsets: list[int] = []
        top: list[dict[str, float]] = []
        offset = self._offsets.get(delta.index, 0)
        for token_id, values in delta.logprobs:
            token = self._text(token_id)
            tokens.append(token)
            offsets.append(offset)
            top.append(self._top(token_id, values))
            offset += len(token)
        self._offsets[delta.index] = offset
        chosen = [_finite(values.token_logprob) for _, values in delta.logprobs]
        return {"tokens": tokens, "token_logprobs": chosen, "top_logprobs": top, "text_offset": offsets}

    def _top(self, token_id: int, values: TokenLogprobs) -> dict[str, float]:
        """Most likely first, then the chosen one. Of ids that spell alike, the likeliest counts."""
        top: dict[str, float] = {}
        for index, value in zip(values.top_ids, values.top_logprobs, strict=True):
            top.setdefault(self._text(index), _finite(value))
        top.setdefault(self._text(token_id), _finite(values.token_logprob))
        return top

    def _text(self, token_id: int) -> str:
        return self._vocabulary.token_bytes(token_id).decode("utf-8", "replace")


def error_event(body: bytes) -> bytes:
    return b"data: " + body + b"\n\n"


def joined(parts: Sequence[Delta]) -> Delta:
    """All news of one choice as one delta, for an answer that is not streamed."""
    whole = Delta(parts[0].index)
    whole.text = "".join([part.text for part in parts])
    for part in parts:
        whole.token_ids += part.token_ids
        whole.logprobs += part.logprobs
        if part.finish_reason is not None:
            whole.finish_reason, whole.stop_reason = part.finish_reason, part.stop_reason
    return whole


def _finite(value: float) -> float:
    return value if value > _LOWEST else _LOWEST
