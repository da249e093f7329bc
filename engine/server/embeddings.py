"""/v1/embeddings: vectors of texts, from the hidden states of the same decoder that answers.

Each input is a sequence of one step's samples less: prefill only, scheduled, journalled and aborted like any request.
Vectors come as the model makes them; here they are cut to `dimensions`, normalised and written. Which hidden states
count is the engine's setting (`text.pooler`). Knows no tensors.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import orjson

from engine.messages import AddRequest, CoreReady, SamplingParams, TokenLogprobs
from engine.server.admission import Job, check_prompt, check_serving, encode, prompt_limit, salt_of
from engine.server.app import Route
from engine.server.caller import Caller
from engine.server.choice import Delta, TextOptions
from engine.server.errors import invalid, unsupported
from engine.server.exchange import Exchange
from engine.server.fields import (
    Field,
    Unsupported,
    flag,
    integer,
    one_of,
    prompts,
    read_fields,
    refuse_unsupported,
    text,
    without_effect,
)
from engine.server.json_body import parse_json
from engine.server.reply import AnswerStyle, run
from engine.server.responses import Usage
from engine.server.services import Services

MAX_INPUTS = 2048
_MAX_TEXT = 16 << 20


EMBEDDING_FIELDS: Mapping[str, Field] = {
    "model": Field(text(256), required=True),
    "input": Field(prompts(MAX_INPUTS, _MAX_TEXT), required=True),
    "encoding_format": Field(one_of("float", "base64"), "float"),
    "dimensions": Field(integer(1, 1 << 20)),
    "add_special_tokens": Field(flag, True),
    "cache_salt": Field(text(1024), ""),
}
UNSUPPORTED_IN_EMBEDDINGS: Mapping[str, Unsupported] = {
    "messages": Unsupported("give 'input'; the chat template is not applied to it."),
    "truncate_prompt_tokens": Unsupported("cut the input before it is sent.", (-1,)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRequest:
    model: str
    input: tuple[str | tuple[int, ...], ...]
    encoding_format: str
    dimensions: int | None
    """None: all that the model has."""
    add_special_tokens: bool
    cache_salt: str
    ignored: tuple[str, ...]


def parse_embedding(raw: bytes) -> EmbeddingRequest:
    body = parse_json(raw)
    refuse_unsupported(body, UNSUPPORTED_IN_EMBEDDINGS)
    values = read_fields(body, EMBEDDING_FIELDS)
    known = EMBEDDING_FIELDS.keys() | UNSUPPORTED_IN_EMBEDDINGS.keys()
    return EmbeddingRequest(**values, ignored=tuple(without_effect(body, known)))


async def embeddings(services: Services, exchange: Exchange, caller: Caller) -> None:
    body = await exchange.body()
    request = await services.beside_loop(len(body), partial(parse_embedding, body))
    ready = check_serving(services, request.model)
    if services.runner == "generate":
        raise unsupported("model", "this server makes no embeddings (--runner generate).")
    if request.dimensions is not None and request.dimensions > ready.embedding_size:
        message = f"Invalid value for 'dimensions': this model has {ready.embedding_size}."
        raise invalid(message, "dimensions")
    special = request.add_special_tokens
    prompts = await encode(
        services, prompt_limit(ready, caller), request.input, "input", add_special_tokens=special
    )
    job = _job(services, ready, request, prompts, caller)
    exchange.name_ignored(request.ignored)
    await run(exchange, services, job, _Shape(services, request), AnswerStyle(stream=False))


ROUTES = (Route("POST", "/v1/embeddings", embeddings),)


def _job(
    services: Services, ready: CoreReady, request: EmbeddingRequest, prompts: list[list[int]], caller: Caller
) -> Job:
    for number, prompt in enumerate(prompts):
        check_prompt(prompt, "input" if len(prompts) == 1 else f"input[{number}]", ready, caller)
    id_, salt = f"embd-{services.draw_id()}", salt_of(caller, request.cache_salt)
    sampling = SamplingParams(seed=0, max_tokens=1, temperature=0.0, pooling=services.pooler.kind)
    sequences = [
        AddRequest(
            request_id=f"{id_}-{number}",
            worker=services.worker,
            prompt_token_ids=prompt,
            sampling=sampling,
            cache_salt=salt,
            fairness_id=caller.fairness_id,
            fairness_weight=caller.fairness_weight,
            request_class=caller.request_class,
            ttft_ms=caller.ttft_ms,
            max_kv_fraction=caller.max_kv_fraction,
        )
        for number, prompt in enumerate(prompts)
    ]
    created, options = services.wall_ms() // 1000, TextOptions(scores_only=True)
    return Job(id=id_, created=created, caller=caller, requests=sequences, options=options, n=1)


class _Shape:
    """`responses.Shape` of an answer that is never streamed and has no text."""

    def __init__(self, services: Services, request: EmbeddingRequest) -> None:
        self._normalize = services.pooler.normalize
        self._request = request

    def opening(
        self, index: int, prompt: Sequence[TokenLogprobs] | None = None, usage: Usage | None = None
    ) -> bytes:
        raise AssertionError("embeddings are not streamed")

    def chunk(self, delta: Delta, usage: Usage | None) -> bytes:
        raise AssertionError("embeddings are not streamed")

    def usage_chunk(self, usage: Usage) -> bytes:
        raise AssertionError("embeddings are not streamed")

    def whole(self, deltas: Sequence[Delta], usage: Usage) -> bytes:
        data = [
            {"object": "embedding", "index": delta.index, "embedding": self._written(delta)}
            for delta in deltas
        ]
        tokens = {"prompt_tokens": usage.prompt_tokens, "total_tokens": usage.prompt_tokens}
        details = {"prompt_tokens_details": {"cached_tokens": usage.cached_tokens}}
        document = {"object": "list", "data": data, "model": self._request.model, "usage": tokens | details}
        return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)

    def _written(self, delta: Delta) -> Any:
        if delta.embedding is None:  # given up before it was made
            return None
        vector = np.frombuffer(delta.embedding, dtype="<f4")[: self._request.dimensions]
        if self._normalize:
            vector = vector / max(float(np.linalg.norm(vector.astype(np.float64))), 1e-12)
        vector = np.ascontiguousarray(vector, dtype="<f4")
        if self._request.encoding_format == "base64":
            return base64.b64encode(vector.tobytes()).decode()
        return vector
