"""What a stream says out of band so that another replica can go on with it: SSE comment lines for the gateway.

`: resume {…}` once, in front of the first token's event, holds what the ids alone do not tell; `: ids INDEX ID ID …`
stands in front of the event that the ids brought, in the same block, and `: end INDEX` in front of the one with the
finish reason. So whoever relays whole blocks knows the ids of exactly what was relayed. The format is defined in
docs/engine-internal.md; `resume` reads it back. Knows no HTTP and no endpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from engine.server.choice import Delta
from engine.server.responses import Usage

if TYPE_CHECKING:
    from engine.server.admission import Job

_BLOCK_END = b"\n\n"


class Start(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an answer began. For the gateway it is an opaque JSON object on one line."""

    version: Literal[1] = 1
    path: str
    """The endpoint that was asked."""
    model_hash: str
    """Of weights and tokenizer: ids mean the same only where this is the same."""
    id: str
    created: int
    prompts: list[list[int]]
    seeds: list[int]
    """One per sequence, n for each prompt."""
    max_tokens: list[int]
    """One per sequence: what fits depends on the replica."""
    cached_tokens: int
    """Prompt tokens that the first replica found in its cache: they have a price of their own."""


class TokenIdLines:
    """The comment lines of one stream."""

    def __init__(self, job: Job, path: str, model_hash: str) -> None:
        self._job, self._path, self._model_hash = job, path, model_hash
        self._has_begun = False

    def mark(self, delta: Delta, events: bytes, usage: Usage) -> bytes:
        """The events of a delta with the lines that belong to them."""
        if delta.finish_reason is not None:
            last = events.rfind(_BLOCK_END, 0, -len(_BLOCK_END))
            begin = 0 if last < 0 else last + len(_BLOCK_END)
            events = events[:begin] + b": end %d\n" % delta.index + events[begin:]
        if delta.token_ids:
            ids = b" ".join(map(b"%d".__mod__, delta.token_ids))
            events = b": ids %d %b\n" % (delta.index, ids) + events
        return events if self._has_begun else self._begin(usage) + events

    def _begin(self, usage: Usage) -> bytes:
        self._has_begun = True
        requests, n = self._job.requests, self._job.n
        start = Start(
            path=self._path,
            model_hash=self._model_hash,
            id=self._job.id,
            created=self._job.created,
            prompts=[request.prompt_token_ids for request in requests[::n]],
            seeds=[request.sampling.seed for request in requests],
            max_tokens=[request.sampling.max_tokens for request in requests],
            cached_tokens=usage.cached_tokens,
        )
        return b": resume " + msgspec.json.encode(start) + b"\n"
