"""The `usage` object of an answer: the only source of billed tokens.

Lenient about absent details, strict about nonsense: a figure that is no count, or that no answer can have, is no usage at
all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gateway.money import TOKENS_MAX

__all__ = ["Usage", "read_usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """`cached_tokens` are part of `prompt_tokens`, `reasoning_tokens` part of `completion_tokens`."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    def __post_init__(self) -> None:
        assert 0 <= self.cached_tokens <= self.prompt_tokens, "cached tokens are prompt tokens"
        assert 0 <= self.reasoning_tokens <= self.completion_tokens, "reasoning tokens are completion tokens"


def read_usage(value: Any) -> Usage | None:
    """None when the object is absent, null or makes no sense; details beyond their total are cut to it."""
    if not isinstance(value, dict):
        return None
    prompt = _count(value.get("prompt_tokens"))
    completion = _count(value.get("completion_tokens", 0))
    if prompt is None or completion is None:
        return None
    cached = _detail(value.get("prompt_tokens_details"), "cached_tokens")
    reasoning = _detail(value.get("completion_tokens_details"), "reasoning_tokens")
    return Usage(prompt, completion, min(cached, prompt), min(reasoning, completion))


def _detail(details: Any, name: str) -> int:
    return (_count(details.get(name)) or 0) if isinstance(details, dict) else 0


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= TOKENS_MAX
    return value if is_count else None
