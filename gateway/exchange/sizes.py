"""How large a request can be: the bounds that the engine enforces and money is held for, and an estimate. Pure
but for what the estimator has learned."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.errors import InvalidValue
from gateway.limits import TokenEstimator, size_caps
from gateway.money import TOKENS_MAX
from gateway.routing import Target
from gateway.tenancy.principal import Principal
from gateway.wire import GenerationRequest

__all__ = ["Sizes", "sizes_of"]


@dataclass(frozen=True, slots=True)
class Sizes:
    prompt_max: int
    output_max: int
    """Of one choice."""
    prompt_estimate: int
    estimate: int
    """Prompt and all choices, for the limits."""


def sizes_of(
    principal: Principal, request: GenerationRequest, target: Target, estimator: TokenEstimator
) -> Sizes:
    model, size = request.model, request.body_bytes
    caps, asked = size_caps(principal, model), request.max_output_tokens
    prompt_max = _capped(request.prompt_tokens_max, caps.max_prompt_tokens)
    output_max = _capped(target.default_max_output if asked is None else asked, caps.max_output_tokens)
    if output_max * request.choices > TOKENS_MAX:
        raise InvalidValue(f"All answers together may not have more than {TOKENS_MAX} tokens.", "max_tokens")
    return Sizes(
        prompt_max,
        output_max,
        min(prompt_max, estimator.estimate(model, size, request.messages, 0)),
        estimator.estimate(model, size, request.messages, output_max * request.choices),
    )


def _capped(value: int, cap: int | None) -> int:
    return value if cap is None else min(value, cap)
