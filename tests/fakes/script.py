"""What a FakeEngine is told to do with a request, and what it notes about one.

Values only; the server that acts on them is fakes/engine.py.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.replies import Usage
from tests.fakes.resume import Resumed


@dataclass(frozen=True)
class Refusal:
    """An answer instead of tokens."""

    status: int
    type: str = "server_error"
    code: str | None = None
    message: str = "The engine refused."
    retry_after_s: int | None = None


OVERLOADED = Refusal(503, "service_unavailable_error", "server_is_overloaded", "The queue is full.", 1)
DRAINING = Refusal(503, "service_unavailable_error", "draining", "This replica is draining.", 1)
TOO_LONG = Refusal(400, "invalid_request_error", "context_length_exceeded", "The prompt is too long.")
MISMATCH = Refusal(409, "invalid_request_error", "model_mismatch", "This answer was begun by other weights.")
BROKEN = Refusal(500, "server_error", None, "Something broke.")


@dataclass(frozen=True)
class Script:
    """What one request does. Counts are of completion tokens already sent."""

    tokens: tuple[str, ...] | None = None
    refuse: Refusal | None = None
    late_refusal: Refusal | None = None
    """An answer instead of tokens, after `first_token_delay_s`."""
    first_token_delay_s: float = 0.0
    gate: asyncio.Event | None = None  # what the first token waits for besides
    token_delay_s: float = 0.0
    cut_before_answer: bool = False  # the connection ends without one byte
    die_after: int | None = None  # the connection is cut
    fail_after: int | None = None  # an error event (stream) or a 500 with usage
    fail_code: str | None = None  # of that error event
    hang_after: int | None = None  # silence, the connection stays open
    usage: bool = True
    cached_tokens: int = 0
    raw: bytes | None = None  # sent as the event stream, byte for byte, in pieces of `raw_piece`
    raw_piece: int = 7

    async def open(self) -> None:
        if self.gate is not None:
            await self.gate.wait()


@dataclass(eq=False)
class Seen:
    """One request as the engine saw it."""

    number: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    state: str = "running"  # → finished | aborted | cancelled | refused | died
    usage: Usage = field(default_factory=lambda: Usage(0, 0))
    resumed: Resumed | None = None
    abort: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def request_id(self) -> str | None:
        return self.headers.get("x-gateway-request-id")

    @property
    def attempt(self) -> int:
        return int(self.headers.get("x-gateway-attempt", "0"))

    @property
    def replayed(self) -> int:
        """Tokens of the answer that another engine had made."""
        return len(self.resumed.outputs) if self.resumed is not None else 0

    @property
    def emits_ids(self) -> bool:
        return self.headers.get("x-emit-token-ids") == "1"

    @property
    def whole_usage(self) -> Usage:
        """What the caller is told: the prompt once, and all of the answer."""
        if self.resumed is None:
            return self.usage
        made, cached = self.usage.completion_tokens + self.replayed, self.resumed.start["cached_tokens"]
        return Usage(self.usage.prompt_tokens - self.replayed, made, cached)

    @property
    def chat(self) -> bool:
        return self.path.endswith("/chat/completions")


@dataclass(frozen=True)
class Plan:
    tokens: list[str]
    finish: str
    head: dict[str, Any]
