"""/v1/chat/completions, /v1/completions and /v1/models.

Each handler is: parse, check, turn into sequences, run. Knows the endpoints' differences and nothing below them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson

from engine.server.admission import chat_prompt, check_open, encode, make_job, prompt_limit
from engine.server.answer_size import check_echoes
from engine.server.answers import answer_format, check_tools, with_grammar
from engine.server.app import Route
from engine.server.caller import Caller
from engine.server.completion_shape import CompletionShape, Prompt
from engine.server.continuation import Resumed, continued
from engine.server.errors import engine_unavailable, invalid, model_not_found
from engine.server.exchange import Exchange
from engine.server.protocol import (
    ChatRequest,
    CompletionRequest,
    GenerationRequest,
    parse_chat,
    parse_completion,
)
from engine.server.reply import AnswerStyle, run
from engine.server.responses import ChatShape, TokenStyle
from engine.server.services import Services
from engine.text.detokenizer import detokenize


async def chat_completions(services: Services, exchange: Exchange, caller: Caller) -> None:
    await answer_chat(services, exchange, caller, await exchange.body())


async def answer_chat(
    services: Services, exchange: Exchange, caller: Caller, body: bytes, resumed: Resumed | None = None
) -> None:
    request = await services.beside_loop(len(body), partial(parse_chat, body))
    ready = check_open(services, request)
    check_tools(services, request.tools)
    prompt = await _chat_prompt(services, prompt_limit(ready, caller), request, resumed)
    format_ = answer_format(services, request, prompt)
    size = 0 if request.tools is None else request.tools.schema_bytes
    request = await services.beside_loop(size, partial(with_grammar, request, format_))
    job = await make_job(services, ready, request, [prompt], caller, "chatcmpl", format_)
    if resumed is not None:
        job = continued(job, resumed, ready)
    exchange.name_ignored(_ignored(services, request))
    echo = _last_answer(request) if request.echo else ""
    check_echoes(request.n, [echo])
    shape = ChatShape(
        id_=job.options.answer_id,
        created=job.created,
        model=request.model,
        vocabulary=services.text.tokenizer,
        prompt_token_ids=prompt,
        style=_token_style(request),
        echo=echo,
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
        if len(prompts) != len(request.prompts):
            raise invalid("Invalid value for 'start.prompts': these are not this request's.", "start.prompts")
    job = await make_job(services, ready, request, prompts, caller, "cmpl")
    if resumed is not None:
        job = continued(job, resumed, ready)
    exchange.name_ignored(request.ignored)
    shape = CompletionShape(
        id_=job.options.answer_id,
        created=job.created,
        model=request.model,
        vocabulary=services.text.tokenizer,
        prompts=_prompts(services, request, prompts),
        n=request.n,
        style=_token_style(request),
    )
    await run(exchange, services, job, shape, _style(request))


async def list_models(services: Services, exchange: Exchange, caller: Caller) -> None:
    """Whoever asks whether a server is ready asks this: before the model is loaded there is none."""
    _require_ready(services)
    data = [_model(services, name) for name in services.served_model_names]
    await exchange.reply(200, orjson.dumps({"object": "list", "data": data}))


async def retrieve_model(services: Services, exchange: Exchange, caller: Caller) -> None:
    _require_ready(services)
    name = exchange.path.removeprefix("/v1/models/")
    if name not in services.served_model_names:
        raise model_not_found(name)
    await exchange.reply(200, orjson.dumps(_model(services, name)))


def _require_ready(services: Services) -> None:
    if services.bridge.ready is None:
        raise engine_unavailable()


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
        add_special_tokens=request.add_special_tokens,
        kwargs=_template_kwargs(request),
        tools=() if request.tools is None else request.tools.documents,
    )


def _style(request: GenerationRequest) -> AnswerStyle:
    return AnswerStyle(request.stream, request.include_usage, request.continuous_usage_stats)


def _token_style(request: GenerationRequest) -> TokenStyle:
    return TokenStyle(
        with_token_ids=request.return_token_ids,
        skip_special_tokens=request.skip_special_tokens,
        num_logprobs=request.num_logprobs,
        num_prompt_logprobs=request.num_prompt_logprobs,
        as_token_ids=request.return_tokens_as_token_ids,
    )


def _template_kwargs(request: ChatRequest) -> dict[str, Any]:
    """What the caller wrote himself wins over OpenAI's field."""
    effort = {} if request.reasoning_effort is None else {"reasoning_effort": request.reasoning_effort}
    return {**effort, **request.chat_template_kwargs}


def _ignored(services: Services, request: ChatRequest) -> tuple[str, ...]:
    """Most templates know nothing of efforts."""
    template = services.text.chat_template
    if request.reasoning_effort is None or (template is not None and template.knows("reasoning_effort")):
        return request.ignored
    return ("reasoning_effort", *request.ignored)


def _last_answer(request: ChatRequest) -> str:
    """What an answer goes on with, if it is one."""
    last = request.messages[-1]
    return last.content or "" if last.role == "assistant" else ""


def _prompts(services: Services, request: CompletionRequest, prompts: list[list[int]]) -> list[Prompt]:
    """Texts are echoed as they were sent, and tokens as they spell."""
    if not request.echo:
        return [Prompt(token_ids) for token_ids in prompts]
    tokenizer = services.text.tokenizer
    echoes = [
        asked if isinstance(asked, str) else detokenize(tokenizer, ids, skip_special_tokens=False)
        for ids, asked in zip(prompts, request.prompts, strict=True)
    ]
    check_echoes(request.n, echoes)
    return [Prompt(ids, echo) for ids, echo in zip(prompts, echoes, strict=True)]


def _model(services: Services, name: str) -> dict[str, Any]:
    ready = services.bridge.ready
    return {
        "id": name,
        "object": "model",
        "created": services.started_s,
        "owned_by": "tollway",
        "max_model_len": ready.max_model_len if ready else None,
    }
