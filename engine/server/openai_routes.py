"""/v1/chat/completions, /v1/completions and /v1/models.

Each handler is: parse, check, turn into sequences, run. Knows the endpoints' differences and nothing below them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson

from engine.server.admission import chat_prompt, check_open, encode, make_job, prompt_limit
from engine.server.app import Route
from engine.server.caller import Caller
from engine.server.continuation import Resumed, continued
from engine.server.errors import model_not_found
from engine.server.exchange import Exchange
from engine.server.generation import AnswerStyle, run
from engine.server.protocol import ChatRequest, GenerationRequest, parse_chat, parse_completion
from engine.server.responses import ChatShape, CompletionShape
from engine.server.services import Services


async def chat_completions(services: Services, exchange: Exchange, caller: Caller) -> None:
    await answer_chat(services, exchange, caller, await exchange.body())


async def answer_chat(
    services: Services, exchange: Exchange, caller: Caller, body: bytes, resumed: Resumed | None = None
) -> None:
    request = await services.beside_loop(len(body), partial(parse_chat, body))
    ready = check_open(services, request)
    prompt = await _chat_prompt(services, prompt_limit(ready, caller), request, resumed)
    job = make_job(services, ready, request, [prompt], caller, "chatcmpl")
    if resumed is not None:
        job = continued(job, resumed, ready.vocab_size)
    _name_ignored(exchange, request)
    shape = ChatShape(
        id_=job.answer_id,
        created=job.created,
        model=request.model,
        vocabulary=services.text.tokenizer,
        prompt_token_ids=prompt if request.return_token_ids else None,
    )
    await run(exchange, services, job, shape, _style(request))


async def completions(services: Services, exchange: Exchange, caller: Caller) -> None:
    await answer_completion(services, exchange, caller, await exchange.body())


async def answer_completion(
    services: Services, exchange: Exchange, caller: Caller, body: bytes, resumed: Resumed | None = None
) -> None:
    request = await services.beside_loop(len(body), partial(parse_completion, body))
    ready = check_open(services, request)
    if resumed is None:
        limit, special = prompt_limit(ready, caller), request.add_special_tokens
        prompts = await encode(services, limit, request.prompts, "prompt", add_special_tokens=special)
    else:
        prompts = resumed.start.prompts
    job = make_job(services, ready, request, prompts, caller, "cmpl")
    if resumed is not None:
        job = continued(job, resumed, ready.vocab_size)
    _name_ignored(exchange, request)
    shape = CompletionShape(
        id_=job.answer_id,
        created=job.created,
        model=request.model,
        vocabulary=services.text.tokenizer,
        with_token_ids=request.return_token_ids,
    )
    await run(exchange, services, job, shape, _style(request))


async def list_models(services: Services, exchange: Exchange, caller: Caller) -> None:
    data = [_model(services, name) for name in services.served_model_names]
    await exchange.reply(200, orjson.dumps({"object": "list", "data": data}))


async def retrieve_model(services: Services, exchange: Exchange, caller: Caller) -> None:
    name = exchange.path.removeprefix("/v1/models/")
    if name not in services.served_model_names:
        raise model_not_found(name)
    await exchange.reply(200, orjson.dumps(_model(services, name)))


ROUTES = (
    Route("POST", "/v1/chat/completions", chat_completions),
    Route("POST", "/v1/completions", completions),
    Route("GET", "/v1/models", list_models),
    Route("GET", "/v1/models/*", retrieve_model),
)


async def _chat_prompt(
    services: Services, limit: int, request: ChatRequest, resumed: Resumed | None
) -> list[int]:
    if resumed is not None:  # a template may write today's date
        return resumed.start.prompts[0] if resumed.start.prompts else []
    return await chat_prompt(
        services,
        limit,
        request.messages,
        add_generation_prompt=request.add_generation_prompt,
        continue_final_message=request.continue_final_message,
        kwargs=request.chat_template_kwargs,
    )


def _style(request: GenerationRequest) -> AnswerStyle:
    return AnswerStyle(request.stream, request.include_usage, request.continuous_usage_stats)


def _name_ignored(exchange: Exchange, request: GenerationRequest) -> None:
    """Header-safe: foreign field names are whatever the caller wrote."""
    names = [name[:64] for name in request.ignored[:32] if name.isascii() and name.isprintable()]
    exchange.reply_headers["x-tollway-ignored"] = ", ".join(names)


def _model(services: Services, name: str) -> dict[str, Any]:
    ready = services.bridge.ready
    return {
        "id": name,
        "object": "model",
        "created": services.started_s,
        "owned_by": "tollway",
        "max_model_len": ready.max_model_len if ready else None,
    }
