"""The answers of /v1/completions: texts, the older form of log-probabilities, and echoed prompts.

Beside `responses`, which holds what both endpoints share. Knows the shape of answers and nothing of how they come
about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from engine.messages import TokenLogprobs
from engine.server.choice import Delta
from engine.server.responses import Base, Speller, TokenStyle, Usage, finite
from engine.text.detokenizer import Detokenizer, TokenBytes


@dataclass(frozen=True, slots=True)
class Prompt:
    token_ids: list[int]
    echo: str | None = None
    """Stands before each of its answers; None: it does not."""


@dataclass(slots=True)
class _Lines:
    """OpenAI's four parallel lists."""

    tokens: list[str] = field(default_factory=list)
    token_logprobs: list[float | None] = field(default_factory=list)
    top_logprobs: list[dict[str, float] | None] = field(default_factory=list)
    text_offset: list[int] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        return {
            "tokens": self.tokens,
            "token_logprobs": self.token_logprobs,
            "top_logprobs": self.top_logprobs,
            "text_offset": self.text_offset,
        }


class _Place:
    """How much of one choice's text its log-probabilities have covered."""

    def __init__(self, vocabulary: TokenBytes, *, skip_special_tokens: bool, offset: int) -> None:
        self._detokenizer = Detokenizer(vocabulary, skip_special_tokens=skip_special_tokens)
        self._offset = offset
        self.shown = offset
        """Characters of the text that the caller has, or is about to get."""

    def take(self, token_id: int) -> int:
        """Where the token begins, in characters of the text; one that begins inside a character, with it."""
        offset = self._offset
        self._offset += len(self._detokenizer.push(token_id))
        return offset


class CompletionShape(Base):
    """`prompts` have `n` choices each, in the order of index."""

    def __init__(
        self,
        *,
        id_: str,
        created: int,
        model: str,
        vocabulary: TokenBytes,
        prompts: Sequence[Prompt],
        n: int,
        style: TokenStyle,
    ) -> None:
        super().__init__(
            id_=id_, created=created, model=model, kind="text_completion", chunk_kind="text_completion"
        )
        self._vocabulary = vocabulary
        self._prompts = prompts
        self._n = n
        self._style = style
        self._spell = Speller(vocabulary, style)
        self._places: dict[int, _Place] = {}

    def opening(
        self, index: int, prompt: Sequence[TokenLogprobs] | None = None, usage: Usage | None = None
    ) -> bytes:
        asked = self._prompt_of(index)
        if asked.echo is None and not self._style.with_token_ids:
            return b""
        lines = _Lines()
        self._echo_logprobs(lines, asked, prompt or ())
        choice: dict[str, Any] = {
            "index": index,
            "text": asked.echo or "",
            "logprobs": lines.document() if lines.tokens else None,
            "finish_reason": None,
        }
        if self._style.with_token_ids:
            choice |= {"prompt_token_ids": asked.token_ids, "token_ids": []}
        return self._event(orjson.dumps(choice), usage)

    def chunk(self, delta: Delta, usage: Usage | None) -> bytes:
        logprobs = orjson.dumps(self._logprobs(delta, _Lines())) if delta.logprobs else b"null"
        choice = b'{"index":%d,"text":%b,"logprobs":%b,"finish_reason":%b' % (
            *(delta.index, orjson.dumps(delta.text), logprobs),
            orjson.dumps(delta.finish_reason),
        )
        if delta.finish_reason is not None:
            choice += b',"stop_reason":' + orjson.dumps(delta.stop_reason)
        if self._style.with_token_ids:
            choice += b',"token_ids":' + orjson.dumps(delta.token_ids)
        return self._event(choice + b"}", usage)

    def whole(self, deltas: Sequence[Delta], usage: Usage) -> bytes:
        choices = []
        for delta in deltas:
            asked, lines = self._prompt_of(delta.index), _Lines()
            found = deltas[delta.index - delta.index % self._n].prompt_logprobs
            self._echo_logprobs(lines, asked, found)
            choice: dict[str, Any] = {
                "index": delta.index,
                "text": (asked.echo or "") + delta.text,
                "logprobs": self._logprobs(delta, lines) if delta.logprobs or lines.tokens else None,
                "finish_reason": delta.finish_reason,
                "stop_reason": delta.stop_reason,
            }
            if self._style.num_prompt_logprobs is not None:
                choice["prompt_logprobs"] = self._spell.prompt_logprobs(asked.token_ids, found)
            if self._style.with_token_ids:
                choice |= {"prompt_token_ids": asked.token_ids, "token_ids": delta.token_ids}
            choices.append(choice)
        return self._document(choices, usage, {})

    def _prompt_of(self, index: int) -> Prompt:
        return self._prompts[index // self._n]

    def _echo_logprobs(self, lines: _Lines, asked: Prompt, found: Sequence[TokenLogprobs]) -> None:
        """What nothing stands before has no probability: the first token's is null. Of an aborted request fewer
        are known."""
        if asked.echo is None or self._style.num_logprobs is None:
            return
        place = _Place(self._vocabulary, skip_special_tokens=False, offset=0)
        first, *rest = asked.token_ids
        lines.tokens.append(self._spell(first))
        lines.token_logprobs.append(None)
        lines.top_logprobs.append(None)
        lines.text_offset.append(0)
        # A token that was put before the text is not part of it.
        if asked.echo.startswith(self._vocabulary.token_bytes(first).decode("utf-8", "replace")):
            place.take(first)
        for token_id, values in zip(rest, found, strict=False):
            self._add(lines, place, token_id, values)

    def _logprobs(self, delta: Delta, lines: _Lines) -> dict[str, Any]:
        place = self._places.get(delta.index)
        if place is None:
            place = self._places[delta.index] = _Place(
                self._vocabulary,
                skip_special_tokens=self._style.skip_special_tokens,
                offset=len(self._prompt_of(delta.index).echo or ""),
            )
        for token_id, values in delta.logprobs:
            self._add(lines, place, token_id, values)
        place.shown += len(delta.text)
        if delta.finish_reason is not None:  # tokens of a stop that is not shown stand at the end
            lines.text_offset = [min(offset, place.shown) for offset in lines.text_offset]
        return lines.document()

    def _add(self, lines: _Lines, place: _Place, token_id: int, values: TokenLogprobs) -> None:
        lines.tokens.append(self._spell(token_id))
        lines.token_logprobs.append(finite(values.token_logprob))
        lines.top_logprobs.append(self._top(token_id, values))
        lines.text_offset.append(place.take(token_id))

    def _top(self, token_id: int, values: TokenLogprobs) -> dict[str, float]:
        """Most likely first, then the chosen one. Of ids that spell alike, the likeliest counts."""
        count = self._style.num_logprobs or 0
        top: dict[str, float] = {}
        for index, value in zip(values.top_ids[:count], values.top_logprobs[:count], strict=True):
            top.setdefault(self._spell(index), finite(value))
        top.setdefault(self._spell(token_id), finite(values.token_logprob))
        return top
