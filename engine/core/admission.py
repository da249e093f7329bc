"""At the door: which requests are turned away before they wait, and with which answer.

Called by `loop` for every `AddRequest`. Refuses what can never be served, and when the line is full either the
newcomer or those that give it their places; decides nothing about order. Knows no running batch but the number
of its free rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.config import CoreConfig
from engine.core.request import Request
from engine.core.scheduler import Scheduler
from engine.messages import TokenOutput

OVERLOADED = "server_is_overloaded"


@dataclass(frozen=True, slots=True)
class Refusal:
    code: str
    message: str
    retry_after_s: float | None = None

    def as_output(self, request_id: str) -> TokenOutput:
        return TokenOutput(
            request_id=request_id,
            finish_reason="error",
            error_code=self.code,
            error_message=self.message,
            retry_after_s=self.retry_after_s,
        )


def refusal(request: Request, scheduler: Scheduler, config: CoreConfig) -> Refusal | None:
    """Why the request can never be served; None if it can."""
    if request.num_prompt_tokens == 0 or request.num_tokens >= request.max_total_tokens:
        return Refusal("engine_error", "a request needs a prompt token and room for an output token")
    if not _can_ever_fit(request, scheduler, config):
        message = (
            f"{request.num_prompt_tokens} prompt tokens and up to {request.sampling.max_tokens} output tokens "
            f"do not fit: the model's context is {config.max_model_len} tokens"
        )
        return Refusal("context_length_exceeded", message)
    if not scheduler.kv.fits_share(request):
        message = (
            f"{request.num_tokens} tokens do not fit: this caller may hold "
            f"{request.max_kv_fraction:.0%} of the engine's pages"
        )
        return Refusal("context_length_exceeded", message)
    return None


def displaced(request: Request, scheduler: Scheduler) -> list[Request] | Refusal:
    """Who gives the request a place in the line, mostly nobody; or why there is none for it."""
    leaving = scheduler.waiting.place_for(request, scheduler.num_free_rows)
    if leaving is None:
        return overload("the waiting line is full", scheduler.waiting.retry_after_s())
    return leaving


def overload(reason: str, retry_after_s: float) -> Refusal:
    return Refusal(OVERLOADED, f"the server is overloaded: {reason}", retry_after_s)


def _can_ever_fit(request: Request, scheduler: Scheduler, config: CoreConfig) -> bool:
    """The last token is never computed, so it needs no page."""
    if request.max_total_tokens > config.max_model_len:
        return False
    return scheduler.kv.peak_pages(request.max_total_tokens - 1) <= scheduler.kv.pool.num_blocks
