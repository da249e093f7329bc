"""From a parsed request to sequences for the core: prompt ids, length limits, sampling parameters.

Everything that can be refused is refused here, before the core hears of the request. Knows no answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from engine.messages import AddRequest, CoreReady, GrammarSpec, SamplingParams
from engine.server.answer_size import Room, room
from engine.server.caller import Caller
from engine.server.choice import TextOptions
from engine.server.continuation import Resumed
from engine.server.errors import (
    draining,
    engine_unavailable,
    invalid,
    model_not_found,
    text_too_long,
    too_long,
    unsupported,
)
from engine.server.messages import ChatMessage
from engine.server.protocol import CompletionRequest, GenerationRequest
from engine.server.services import INLINE_SIZE, Phase, Services
from engine.text.answer import AnswerFormat, shown_token_ids
from engine.text.chat_template import ChatTemplateError

MAX_ALLOWED_IDS = 1 << 20
"""Every answer carries its own list to the core, which checks it between two steps of everybody."""
MAX_GRAMMAR_CHARS = 1 << 22
"""Every answer carries its own copy of the grammar to the core."""
MAX_PROMPT_LOGPROBS = 1 << 18
"""Every position's alternatives count; an answer names each of them in a JSON object of its own."""
MAX_PROMPT_TOKENS = 1 << 22
"""Each of n answers carries the prompt to the core, which holds them all at once."""
MAX_WORD_TOKENS = 16
"""Of a bad word: what the samplers' tables hold."""
MAX_WORD_CHARS = 512
_TURN_CHARS = 64
"""What a template writes around a message."""
_SEED_MASK = 2**63 - 1
_TEMPERATURE_MIN = 1e-5
"""Below it the likeliest token is the only one; the quotient of a logit would leave fp32."""
_TOP_P_MIN = 1e-6
"""OpenAI allows 0, which means the likeliest token alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One HTTP request, ready for the core. `requests` has n sequences per prompt, in the order of index."""

    id: str
    created: int
    caller: Caller
    requests: list[AddRequest]
    options: TextOptions
    n: int
    resumed: Resumed | None = None
    """Set for an answer that another replica began."""

    @property
    def num_prompt_tokens(self) -> int:
        """Each prompt once, however many answers it gets."""
        return sum(len(request.prompt_token_ids) for request in self.requests[:: self.n])


def check_open(services: Services, request: GenerationRequest) -> CoreReady:
    """The model is ours, is there, and takes requests for answers."""
    ready = check_serving(services, request.model)
    if services.runner == "pooling":
        raise unsupported("model", "this server makes embeddings only (--runner pooling).")
    return ready


def check_serving(services: Services, model: str) -> CoreReady:
    if model not in services.served_model_names:
        raise model_not_found(model)
    if services.phase is Phase.CLOSED:
        raise draining()
    if services.bridge.ready is None or services.hung:
        raise engine_unavailable()
    return services.bridge.ready


async def chat_prompt(
    services: Services,
    limit: int,
    messages: Sequence[ChatMessage],
    *,
    add_generation_prompt: bool,
    continue_final_message: bool,
    add_special_tokens: bool,
    kwargs: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]] = (),
) -> list[int]:
    """Tokens of a conversation; templates write the special tokens themselves, as a rule. Raises `ApiError` for one that cannot have as few as `limit`."""
    template = services.text.chat_template
    if template is None:
        raise invalid("This model has no chat template; use /v1/completions.", "messages")

    def render() -> str:
        return template.render(
            [message.for_template() for message in messages],
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            kwargs=kwargs,
            tools=tools,
        )

    try:
        work = sum(map(_render_work, messages)) + len(tools) * INLINE_SIZE
        prompt = await services.beside_loop(work, render)
    except ChatTemplateError as error:
        raise invalid(str(error), "messages") from error
    special = add_special_tokens
    (tokens,) = await encode(services, limit, [prompt], "messages", add_special_tokens=special)
    return tokens


async def encode(
    services: Services,
    limit: int,
    prompts: Sequence[str | Sequence[int]],
    param: str,
    *,
    add_special_tokens: bool,
) -> list[list[int]]:
    """Tokens of each prompt; those given as tokens stay. Texts that cannot have as few as `limit` tokens are
    refused unread: tokenising takes seconds and gigabytes where it is allowed to."""
    tokenizer = services.text.tokenizer
    for prompt in prompts:
        if isinstance(prompt, str) and len(prompt) > limit * tokenizer.max_chars_per_token:
            raise text_too_long(len(prompt), limit, param)

    def all_tokens() -> list[list[int]]:
        return [
            tokenizer.encode(prompt, add_special_tokens=add_special_tokens)
            if isinstance(prompt, str)
            else list(prompt)
            for prompt in prompts
        ]

    return await services.beside_loop(sum(map(len, prompts)), all_tokens)


async def make_job(
    services: Services,
    ready: CoreReady,
    request: GenerationRequest,
    prompts: list[list[int]],
    caller: Caller,
    id_prefix: str,
    format_: AnswerFormat | None = None,
) -> Job:
    """Raises `ApiError` for prompts and parameters that do not fit this model."""
    bad_words = await _bad_words(services, request)
    _check_ids(request, ready.vocab_size)
    if len(request.allowed_token_ids) * request.n * len(prompts) > MAX_ALLOWED_IDS:
        message = f"At most {MAX_ALLOWED_IDS} allowed tokens in all answers of a request together."
        raise invalid(message, "allowed_token_ids")
    _check_choice(request, bad_words, ready)
    _check_num_prompt_logprobs(request, prompts)
    if request.n * sum(map(len, prompts)) > MAX_PROMPT_TOKENS:
        message = f"At most {MAX_PROMPT_TOKENS} prompt tokens in all sequences of a request ('n' × prompts)."
        raise invalid(message, "n")
    if request.grammar is not None:
        _check_grammar(request, request.grammar, request.n * len(prompts), ready)
    field = "prompt" if isinstance(request, CompletionRequest) else "messages"
    for number, prompt in enumerate(prompts):
        check_prompt(prompt, field if len(prompts) == 1 else f"{field}[{number}]", ready, caller)
    most = room(request, prompts)
    id_ = f"{id_prefix}-{services.draw_id()}"
    salt = salt_of(caller, request.cache_salt)
    sequences: list[AddRequest] = []
    for prompt in prompts:
        max_tokens = _max_tokens(services, request, len(prompt), ready, caller, field, most)
        seed = services.draw_seed() if request.seed is None else request.seed
        sampling = _sampling(services, request, max_tokens, seed, bad_words)
        for child in range(request.n):
            sequences.append(
                AddRequest(
                    request_id=f"{id_}-{len(sequences)}",
                    worker=services.worker,
                    prompt_token_ids=prompt,
                    sampling=_for_child(sampling, child, request),
                    cache_salt=salt,
                    fairness_id=caller.fairness_id,
                    priority=request.priority,
                    fairness_weight=caller.fairness_weight,
                    request_class=caller.request_class,
                    ttft_ms=caller.ttft_ms,
                    tpot_ms=caller.tpot_ms,
                    max_kv_fraction=caller.max_kv_fraction,
                )
            )
    options = TextOptions(
        stops=request.stop,
        include_stop=request.include_stop_str_in_output,
        skip_special_tokens=request.skip_special_tokens,
        min_tokens=request.min_tokens,
        stop_token_ids=frozenset(request.stop_token_ids),
        scores_only=request.scores_only,
        answer_id=id_,
        format=format_,
        shown_token_ids=shown_token_ids(services.text.tokenizer, format_),
    )
    return Job(
        id=id_,
        created=services.wall_ms() // 1000,
        caller=caller,
        requests=sequences,
        options=options,
        n=request.n,
    )


def _render_work(message: ChatMessage) -> int:
    """Characters that a template handles for a message, roughly; tool calls may be nested at will."""
    return _TURN_CHARS + len(message.content or "") + (INLINE_SIZE if message.tool_calls else 0)


def _check_ids(request: GenerationRequest, vocab_size: int) -> None:
    named = {
        "stop_token_ids": request.stop_token_ids,
        "allowed_token_ids": request.allowed_token_ids,
        "logit_bias": request.logit_bias,
    }
    for name, ids in named.items():
        if any(index >= vocab_size for index in ids):
            raise invalid(f"Invalid value for '{name}': this model has {vocab_size} tokens.", name)


def _check_choice(request: GenerationRequest, bad_words: Sequence[Sequence[int]], ready: CoreReady) -> None:
    """Some token must be left beside the bad words, and while `min_tokens` forbids those that end the answer."""
    if not request.allowed_token_ids:
        return
    left = set(request.allowed_token_ids) - {word[0] for word in bad_words if len(word) == 1}
    if not left:
        raise invalid("'allowed_token_ids' holds only tokens that 'bad_words' forbids.", "allowed_token_ids")
    ends = {*request.stop_token_ids, *(() if request.ignore_eos else ready.eos_token_ids)}
    if request.min_tokens and not left - ends:
        message = "'allowed_token_ids' holds only tokens that end the answer, which 'min_tokens' forbids."
        raise invalid(message, "allowed_token_ids")


def _check_num_prompt_logprobs(request: GenerationRequest, prompts: Sequence[Sequence[int]]) -> None:
    wanted = _num_prompt_logprobs(request)
    if wanted is None:
        return
    if (1 + wanted) * request.n * sum(map(len, prompts)) > MAX_PROMPT_LOGPROBS:
        name = "echo" if request.num_prompt_logprobs is None else "prompt_logprobs"
        message = f"At most {MAX_PROMPT_LOGPROBS} log-probabilities of prompts in one request."
        raise invalid(message, name)


async def _bad_words(services: Services, request: GenerationRequest) -> tuple[tuple[int, ...], ...]:
    """The words as tokens, each as it is spelt at the beginning of a text and behind a space."""
    words = [word.strip() for word in request.bad_words]
    spellings = [*words, *(f" {word}" for word in words)]
    found = await encode(services, MAX_WORD_CHARS, spellings, "bad_words", add_special_tokens=False)
    for word, tokens in zip(spellings, found, strict=True):
        if len(tokens) > MAX_WORD_TOKENS:
            message = f"Invalid value for 'bad_words': '{word[:40]}' has more than {MAX_WORD_TOKENS} tokens."
            raise invalid(message, "bad_words")
    return tuple(dict.fromkeys(map(tuple, filter(None, found))))


def _check_grammar(
    request: GenerationRequest, grammar: GrammarSpec, num_answers: int, ready: CoreReady
) -> None:
    param = grammar.param
    if len(grammar.text) * num_answers > MAX_GRAMMAR_CHARS:
        message = f"The grammar has {len(grammar.text)} characters; with that many answers it is too large."
        raise invalid(message, param)
    if not ready.has_grammars:
        raise unsupported(param, "structured output is not installed on this server (package xgrammar).")
    if request.ignore_eos:
        message = "'ignore_eos' and structured output exclude each other: the answer ends with its grammar."
        raise invalid(message, "ignore_eos")
    if not ready.eos_token_ids:
        raise unsupported(param, "this model has no end token, which structured output needs.")


def prompt_limit(ready: CoreReady, caller: Caller) -> int:
    """The longest prompt of this caller, in tokens: an answer needs one token more."""
    limit = ready.max_model_len - 1
    return limit if caller.max_prompt_tokens is None else min(limit, caller.max_prompt_tokens)


def check_prompt(prompt: list[int], name: str, ready: CoreReady, caller: Caller) -> None:
    if not prompt:
        raise invalid(f"Invalid value for '{name}': the prompt is empty.", name)
    if max(prompt) >= ready.vocab_size:
        raise invalid(f"Invalid value for '{name}': this model has {ready.vocab_size} tokens.", name)
    limit = ready.max_model_len
    if caller.max_prompt_tokens is not None and len(prompt) > caller.max_prompt_tokens:
        raise too_long(len(prompt), 0, min(limit, caller.max_prompt_tokens), name)
    if len(prompt) >= limit:
        raise too_long(len(prompt), 1, limit, name)


def _max_tokens(
    services: Services,
    request: GenerationRequest,
    num_prompt_tokens: int,
    ready: CoreReady,
    caller: Caller,
    field: str,
    most: Room | None,
) -> int:
    """What the caller asked for, or what fits; never more than the gateway allows."""
    fits = ready.max_model_len - num_prompt_tokens
    longest = services.text.sampling_defaults.get("max_new_tokens", fits)
    wanted = request.max_tokens
    if wanted is None:
        wanted = min(fits, int(longest)) if most is None else min(fits, int(longest), most.tokens)
    if caller.max_output_tokens is not None:
        wanted = min(wanted, caller.max_output_tokens)
    if wanted > fits:
        raise too_long(num_prompt_tokens, wanted, ready.max_model_len, field)
    if most is not None and wanted > most.tokens:
        raise most.over
    return max(1, wanted)


def _num_prompt_logprobs(request: GenerationRequest) -> int | None:
    """What the core is asked for: an echo's log-probabilities are the prompt's."""
    echoed = request.num_logprobs if isinstance(request, CompletionRequest) and request.echo else None
    wanted = [count for count in (request.num_prompt_logprobs, echoed) if count is not None]
    return max(wanted, default=None)


def _for_child(sampling: SamplingParams, child: int, request: GenerationRequest) -> SamplingParams:
    """Seeds differ. The prompt's log-probabilities are the same for all children; only in a stream, where nobody
    waits for the first one, do all of them find their own."""
    repeats = child == 0 or request.stream
    return msgspec.structs.replace(
        sampling,
        seed=(sampling.seed + child) & _SEED_MASK,
        num_prompt_logprobs=sampling.num_prompt_logprobs if repeats else None,
    )


def _sampling(
    services: Services,
    request: GenerationRequest,
    max_tokens: int,
    seed: int,
    bad_words: tuple[tuple[int, ...], ...],
) -> SamplingParams:
    """The caller's values, else the checkpoint's defaults, else OpenAI's."""
    defaults = services.text.sampling_defaults

    def pick(value: float | None, name: str, otherwise: float) -> float:
        return defaults.get(name, otherwise) if value is None else value

    temperature = pick(request.temperature, "temperature", 1.0)
    return SamplingParams(
        seed=seed,
        max_tokens=max_tokens,
        min_tokens=min(request.min_tokens, max_tokens),
        temperature=temperature if temperature >= _TEMPERATURE_MIN else 0.0,
        top_p=max(_TOP_P_MIN, pick(request.top_p, "top_p", 1.0)),
        top_k=max(0, int(pick(request.top_k, "top_k", 0))),
        min_p=pick(request.min_p, "min_p", 0.0),
        repetition_penalty=pick(request.repetition_penalty, "repetition_penalty", 1.0),
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
        logit_bias=request.logit_bias,
        allowed_token_ids=tuple(dict.fromkeys(request.allowed_token_ids)),
        stop_token_ids=request.stop_token_ids,
        ignore_eos=request.ignore_eos,
        num_logprobs=request.num_logprobs,
        num_prompt_logprobs=_num_prompt_logprobs(request),
        bad_words=bad_words,
        grammar=request.grammar,
    )


def salt_of(caller: Caller, own: str) -> bytes:
    """The gateway's salt keeps tenants apart; a caller's own divides further and can never join two."""
    if not own:
        return caller.cache_salt
    return hashlib.sha256(
        len(caller.cache_salt).to_bytes(2, "big") + caller.cache_salt + own.encode()
    ).digest()
