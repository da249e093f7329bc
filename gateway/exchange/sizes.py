"""How large a request can be: the bounds that the engine enforces and money is held for, and an estimate. Pure
but for what the estimator has learned."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.errors import ContextLengthExceeded, InvalidValue
from gateway.limits import TokenEstimator, size_caps
from gateway.money import TOKENS_MAX
from gateway.routing import Target
from gateway.tenancy.principal import Principal
from gateway.wire import GenerationRequest
from gateway.wire.request import CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES

__all__ = ["Sizes", "sizes_of"]

PROMPT_FIELDS = {CHAT: "messages", COMPLETIONS: "prompt", EMBEDDINGS: "input", RESPONSES: "input"}


@dataclass(frozen=True, slots=True)
class Sizes:
    prompt_max: int
    output_max: int
    """Of one choice."""
    prompt_estimate: int
    estimate: int
    """Prompt and all choices, for the limits."""


def sizes_of(
    principal: Principal,
    request: GenerationRequest,
    target: Target,
    estimator: TokenEstimator,
    *,
    is_told: bool,
) -> Sizes:
    """`is_told`: the engine hears of the tenant's cap and refuses a prompt above it. Where none does, money is held for
    all that the bytes may be, and the cap is applied here, to an estimate."""
    model, size = request.model, request.body_bytes
    caps, asked = size_caps(principal, model), request.max_output_tokens
    if not is_told:
        _check_prompt(request, caps.max_prompt_tokens, estimator)
    prompt_max = _capped(request.prompt_tokens_max, caps.max_prompt_tokens if is_told else None)
    output_max = _capped(target.default_max_output if asked is None else asked, caps.max_output_tokens)
    if output_max * request.choices > TOKENS_MAX:
        raise InvalidValue(f"All answers together may not have more than {TOKENS_MAX} tokens.", "max_tokens")
    return Sizes(
        prompt_max,
        output_max,
        min(prompt_max, estimator.estimate(model, size, request.messages, 0)),
        estimator.estimate(model, size, request.messages, output_max * request.choices),
    )


def _check_prompt(request: GenerationRequest, cap: int | None, estimator: TokenEstimator) -> None:
    if cap is None or request.prompt_tokens_max <= cap:
        return
    tokens = estimator.prompt_tokens(request.model, request.body_bytes)
    if tokens > cap:
        message = f"This project's prompts may have {cap} tokens. Yours has about {tokens}."
        raise ContextLengthExceeded(message, PROMPT_FIELDS[request.endpoint])


def _capped(value: int, cap: int | None) -> int:
    return value if cap is None else min(value, cap)
