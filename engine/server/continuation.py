"""How an answer goes on elsewhere: what a stream says out of band, and how what it said is lived through again.

`: resume {…}` once, in front of the first event, holds what the ids alone do not tell; `: ids INDEX ID ID …` stands
in front of the event that the ids brought, in the same block, and `: end INDEX` in front of the one with the finish
reason. So whoever relays whole blocks knows the ids of exactly what was relayed. The format is defined in
docs/engine-internal.md. `replay` brings a choice to where its ids end. Knows no HTTP and no endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from engine.messages import AddRequest, CoreReady, TokenLogprobs, TokenOutput
from engine.server.choice import Choice, Delta
from engine.server.errors import invalid, too_long
from engine.server.responses import Usage

if TYPE_CHECKING:
    from engine.server.admission import Job

_BLOCK_END = b"\n\n"
_Text = Annotated[str, Meta(max_length=200)]
TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Start(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an answer began. For the gateway it is an opaque JSON object on one line."""

    version: Literal[1] = 1
    path: _Text
    """The endpoint that was asked."""
    model_hash: _Text
    """Of weights and tokenizer: ids mean the same only where this is the same."""
    id: _Text
    created: Annotated[int, Meta(ge=0, le=2**53)]
    prompts: list[list[TokenId]]
    seeds: list[Annotated[int, Meta(ge=0, le=2**63 - 1)]]
    """One per sequence, n for each prompt."""
    max_tokens: list[Annotated[int, Meta(ge=1, le=2**31 - 1)]]
    """One per sequence: what fits depends on the replica."""
    cached_tokens: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    """Prompt tokens that the first replica found in its cache: they have a price of their own."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """What is known of an answer that another replica began."""

    start: Start
    outputs: list[list[int]]
    """Of each choice, the ids whose blocks were relayed."""
    ended: frozenset[int]
    """Choices whose end was relayed too."""
    attempt: int | None
    """The attempt that it goes on with."""


class TokenIdLines:
    """The comment lines of one stream."""

    def __init__(self, job: Job, path: str, model_hash: str) -> None:
        self._job, self._path, self._model_hash = job, path, model_hash
        self._has_begun = job.resumed is not None

    def mark(self, delta: Delta, events: bytes) -> bytes:
        """The events of a delta with the lines that belong to them."""
        if delta.finish_reason is not None:
            last = last_block(events)
            events = events.removesuffix(last) + self.mark_end(delta.index, last)
        if delta.token_ids:
            ids = b" ".join(map(b"%d".__mod__, delta.token_ids))
            events = b": ids %d %b\n" % (delta.index, ids) + events
        return events

    def mark_end(self, index: int, block: bytes) -> bytes:
        """The block with a choice's finish reason."""
        return b": end %d\n" % index + block

    def begin(self, usage: Usage) -> bytes:
        """For the front of the first block; empty from then on."""
        if self._has_begun:
            return b""
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


def continued(job: Job, resumed: Resumed, ready: CoreReady) -> Job:
    """A job of the same request, going on with its answers. Raises `ApiError` where the two do not fit together."""
    start, wanted = resumed.start, len(job.requests)
    if not len(resumed.outputs) == len(start.seeds) == len(start.max_tokens) == wanted:
        raise invalid(f"Invalid value for 'outputs': this request has {wanted} choices.", "outputs")
    if not all(0 <= index < wanted for index in resumed.ended):
        raise invalid(f"Invalid value for 'ended': this request has {wanted} choices.", "ended")
    requests = []
    for index, request in enumerate(job.requests):
        outputs, max_tokens = resumed.outputs[index], start.max_tokens[index]
        if len(outputs) > max_tokens or not all(token_id < ready.vocab_size for token_id in outputs):
            message = f"Invalid value for 'outputs[{index}]': no answer of this model to this request."
            raise invalid(message, f"outputs[{index}]")
        num_prompt_tokens = len(request.prompt_token_ids)
        if num_prompt_tokens + max_tokens > ready.max_model_len:
            raise too_long(num_prompt_tokens, max_tokens, ready.max_model_len, f"start.max_tokens[{index}]")
        sampling = msgspec.structs.replace(
            request.sampling,
            seed=start.seeds[index],
            max_tokens=max_tokens,
            min_tokens=min(job.options.min_tokens, max_tokens),
            num_prompt_logprobs=None if outputs else request.sampling.num_prompt_logprobs,
        )
        requests.append(msgspec.structs.replace(request, sampling=sampling, output_token_ids=outputs))
    options = replace(job.options, answer_id=start.id)
    return replace(job, requests=requests, options=options, created=start.created, resumed=resumed)


def last_block(events: bytes) -> bytes:
    """The last of some whole blocks."""
    before = events.rfind(_BLOCK_END, 0, -len(_BLOCK_END))
    return events if before < 0 else events[before + len(_BLOCK_END) :]


def replay(
    request: AddRequest, make_choice: Callable[[], Choice], end_ids: frozenset[int]
) -> tuple[Choice, list[Delta], AddRequest]:
    """A choice that has lived through `request.output_token_ids`, its news, and the request with those ids that are
    left. Ids behind the last news are not: their block was never seen, and its log-probabilities are not known here."""
    choice, deltas, num_shown = make_choice(), [], 0
    for number, output in enumerate(_as_outputs(request, end_ids), 1):
        delta = choice.take(output)
        if delta is not None:
            deltas.append(delta)
            num_shown = number
        if choice.stopped and not choice.finished:
            num_shown = number
            end = choice.take(TokenOutput(request_id=request.request_id, finish_reason="abort"))
            assert end is not None
            deltas.append(end)
        if choice.finished:
            break
    if num_shown == len(request.output_token_ids):
        return choice, deltas, request
    left = msgspec.structs.replace(request, output_token_ids=request.output_token_ids[:num_shown])
    return (choice, deltas, left) if choice.finished else replay(left, make_choice, end_ids)


def _as_outputs(request: AddRequest, end_ids: frozenset[int]) -> Iterator[TokenOutput]:
    """As the core sent them, but for the log-probabilities' values: a token at a time, the last one with its end."""
    sampling = request.sampling
    unknown = None if sampling.num_logprobs is None else [TokenLogprobs(0.0, 1, [], [])]
    for number, token_id in enumerate(request.output_token_ids, 1):
        ends = token_id in end_ids and number > sampling.min_tokens
        is_last = ends or number == sampling.max_tokens
        yield TokenOutput(
            request_id=request.request_id,
            token_ids=[token_id],
            logprobs=unknown,
            finish_reason=("stop" if ends else "length") if is_last else None,
            stop_token_id=token_id if ends else None,
        )
