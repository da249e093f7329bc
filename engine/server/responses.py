"""OpenAI's answer documents and stream events: what both endpoints share, and chat. (`completion_shape`: the other.)

A stream's constant parts are encoded once; a chunk costs one JSON string and a concatenation. Knows the shape of
answers and nothing of how they come about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from engine.messages import TokenLogprobs
from engine.server.choice import CallDelta, Delta
from engine.text.detokenizer import TokenBytes

DONE = b"data: [DONE]\n\n"
_LOWEST = -9999.0
"""Stands for log 0, which JSON cannot write."""
_PIECE = 256
"""Positions of an answer whose log-probabilities are objects at a time."""


class Usage:
    """Token counts of one HTTP request, as the caller sees them."""

    __slots__ = ("cached_tokens", "completion_tokens", "prompt_tokens", "reasoning_tokens")

    def __init__(self, prompt_tokens: int) -> None:
        self.prompt_tokens = prompt_tokens
        self.cached_tokens = 0
        self.completion_tokens = 0
        self.reasoning_tokens: int | None = None
        """Of the completion's; None: reasoning is not told apart."""

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }
        if self.reasoning_tokens is not None:
            document["completion_tokens_details"] = {"reasoning_tokens": self.reasoning_tokens}
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenStyle:
    """What a caller wants to see of tokens."""

    with_token_ids: bool = False
    skip_special_tokens: bool = True
    """As in the answer's text."""
    num_logprobs: int | None = None
    num_prompt_logprobs: int | None = None
    as_token_ids: bool = False
    """Tokens are written `token_id:5`, which tells those apart that spell alike."""


class Speller:
    """Tokens as an answer writes them."""

    def __init__(self, vocabulary: TokenBytes, style: TokenStyle) -> None:
        self.raw = vocabulary.token_bytes
        self._style = style

    def __call__(self, token_id: int) -> str:
        if self._style.as_token_ids:
            return f"token_id:{token_id}"
        return self.raw(token_id).decode("utf-8", "replace")

    def prompt_logprobs(self, prompt: Sequence[int], found: Sequence[TokenLogprobs]) -> list[Any]:
        """For each token of a prompt: nothing for the first, then id → {logprob, rank, decoded_token}. Of an aborted
        request fewer are known."""
        entries: list[Any] = [None]
        for token_id, values in zip(prompt[1:], found, strict=False):
            ranked = [(token_id, values.token_logprob, values.rank)]
            top = zip(values.top_ids, values.top_logprobs, strict=True)
            ranked += [(index, value, rank) for rank, (index, value) in enumerate(top, 1)]
            entries.append(
                {
                    str(index): {"logprob": finite(value), "rank": rank, "decoded_token": self(index)}
                    for index, value, rank in ranked[: 1 + (self._style.num_prompt_logprobs or 0)]
                }
            )
        return entries


class Shape(Protocol):
    """What differs between the two endpoints' answers."""

    def opening(
        self, index: int, prompt: Sequence[TokenLogprobs] | None = None, usage: Usage | None = None
    ) -> bytes:
        """Events before the first text of a choice. `prompt`: the log-probabilities of its prompt, if asked for."""
        ...

    def chunk(self, delta: Delta, usage: Usage | None) -> bytes:
        """One or two events: the text, then the end if it is there."""
        ...

    def usage_chunk(self, usage: Usage) -> bytes: ...

    def whole(self, deltas: Sequence[Delta], usage: Usage) -> bytes: ...


class Base:
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


class ChatShape(Base):
    def __init__(
        self,
        *,
        id_: str,
        created: int,
        model: str,
        vocabulary: TokenBytes,
        prompt_token_ids: list[int],
        style: TokenStyle,
        echo: str = "",
    ) -> None:
        """`echo` stands before every answer."""
        super().__init__(
            id_=id_, created=created, model=model, kind="chat.completion", chunk_kind="chat.completion.chunk"
        )
        self._spell = Speller(vocabulary, style)
        self._prompt = prompt_token_ids
        self._style = style
        self._echo = echo

    def opening(
        self, index: int, prompt: Sequence[TokenLogprobs] | None = None, usage: Usage | None = None
    ) -> bytes:
        delta = b'{"index":%d,"delta":{"role":"assistant","content":%b},"logprobs":null,"finish_reason":null}'
        event = self._event(delta % (index, orjson.dumps(self._echo)), usage)
        if self._style.with_token_ids and index == 0:
            event = event[:-3] + b',"prompt_token_ids":' + orjson.dumps(self._prompt) + b"}\n\n"
        return event

    def chunk(self, delta: Delta, usage: Usage | None) -> bytes:
        event = b""
        if delta.is_news or delta.logprobs:
            logprobs = self._logprobs(delta) if delta.logprobs else b"null"
            choice = b'{"index":%d,"delta":{%b},"logprobs":%b,"finish_reason":null%b}' % (
                *(delta.index, _news(delta), logprobs),
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
                "message": _message(delta, self._echo),
                "logprobs": orjson.Fragment(self._logprobs(delta)) if delta.logprobs else None,
                "finish_reason": delta.finish_reason,
                "stop_reason": delta.stop_reason,
            }
            if self._style.with_token_ids:
                choice["token_ids"] = delta.token_ids
            choices.append(choice)
        extra: dict[str, Any] = {}
        if self._style.with_token_ids:
            extra["prompt_token_ids"] = self._prompt
        if self._style.num_prompt_logprobs is not None:
            found = deltas[0].prompt_logprobs
            extra["prompt_logprobs"] = self._spell.prompt_logprobs(self._prompt, found)
        return self._document(choices, usage, extra)

    def _token_ids(self, delta: Delta) -> bytes:
        return b',"token_ids":' + orjson.dumps(delta.token_ids) if self._style.with_token_ids else b""

    def _logprobs(self, delta: Delta) -> bytes:
        """Written in pieces: as objects, the positions of a long answer take ten times their text."""
        found = delta.logprobs
        pieces = [
            orjson.dumps([self._position(*one) for one in found[start : start + _PIECE]])[1:-1]
            for start in range(0, len(found), _PIECE)
        ]
        return b'{"content":[%b],"refusal":null}' % b",".join(pieces)

    def _position(self, token_id: int, values: TokenLogprobs) -> dict[str, Any]:
        pairs = zip(values.top_ids, values.top_logprobs, strict=True)
        top = [self._entry(index, value) for index, value in pairs]
        return {**self._entry(token_id, values.token_logprob), "top_logprobs": top}

    def _entry(self, token_id: int, logprob: float) -> dict[str, Any]:
        raw = self._spell.raw(token_id)
        return {"token": self._spell(token_id), "logprob": finite(logprob), "bytes": list(raw)}


def _news(delta: Delta) -> bytes:
    """Members of a chunk's delta, without the braces. Nothing else than content costs no list."""
    if not (delta.reasoning or delta.calls):
        return b'"content":' + orjson.dumps(delta.text)
    members = []
    if delta.reasoning:
        reasoning = orjson.dumps(delta.reasoning)
        members.append(b'"reasoning":%b,"reasoning_content":%b' % (reasoning, reasoning))
    if delta.text:
        members.append(b'"content":' + orjson.dumps(delta.text))
    if delta.calls:
        members.append(b'"tool_calls":' + orjson.dumps([_call_chunk(call) for call in delta.calls]))
    return b",".join(members)


def _call_chunk(call: CallDelta) -> dict[str, Any]:
    if call.name is None:
        return {"index": call.index, "function": {"arguments": call.arguments}}
    return {"index": call.index, **_call(call)}


def _call(call: CallDelta) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _message(delta: Delta, echo: str) -> dict[str, Any]:
    """Content is null where the answer is something else instead."""
    content = echo + delta.text
    empty = not content and (delta.calls or delta.reasoning)
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if empty else content,
        "refusal": None,
    }
    if delta.reasoning:
        message["reasoning"] = message["reasoning_content"] = delta.reasoning
    if delta.calls:
        message["tool_calls"] = [_call(call) for call in delta.calls]
    return message


def error_event(body: bytes) -> bytes:
    return b"data: " + body + b"\n\n"


def finite(value: float) -> float:
    return value if value > _LOWEST else _LOWEST
