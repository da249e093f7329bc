"""What running a batch is made of, and its terms. The composition root puts it together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.batches.keeper import Standing
from gateway.blobs import Blobs
from gateway.clock import Clock
from gateway.db import Database
from gateway.exchange import Caller, Sink
from gateway.ids import RequestId
from gateway.obs.metrics import Metrics
from gateway.wire import GenerationRequest

__all__ = ["Holds", "Parts", "Requests", "Terms"]


class Requests(Protocol):
    """The request path."""

    async def run(
        self, caller: Caller, request: GenerationRequest, request_id: RequestId, sink: Sink
    ) -> None: ...


class Holds(Protocol):
    """The ledger, as far as holds of the dead go."""

    async def give_back(self, request_ids: Sequence[RequestId]) -> None: ...


@dataclass(frozen=True, slots=True)
class Terms:
    """How much at once, and for how long. A batch is worked on in slices, so that all of them have their turns."""

    batches_at_once: int = 8
    """Of this gateway."""
    lines_at_once: int = 16
    """Of one batch: what it holds money and engines' slots for at any time."""
    slice_lines: int = 500
    slice_s: float = 30.0
    lease_s: float = 15.0
    """After this long without a sign of life another gateway takes a batch over: before the reconciler, which waits for
    30 s, settles what the dead one had in flight."""
    idle_s: float = 1.0
    stop_s: float = 25.0
    """How long lines in flight may take to end when the gateway stops."""


@dataclass(frozen=True, slots=True)
class Parts:
    database: Database
    blobs: Blobs
    requests: Requests
    holds: Holds
    standing: Standing
    clock: Clock
    metrics: Metrics
    terms: Terms = Terms()
