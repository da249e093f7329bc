"""The asyncio side of the boundary to the core: submits sequences, hands their news to the waiting requests.

Guarantees one terminal output per sequence whatever happens to the core: an answer from it, or an error made
here when it is lost. One message of the core wakes each request at most once, so a request writes at most once
per step. What waits for a request that does not take it is weighed, and bounded. Knows no text and no HTTP.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from engine.messages import (
    AbortRequest,
    AddRequest,
    CoreInbound,
    CoreReady,
    LoadStats,
    StepOutputs,
    TokenOutput,
)
from engine.server.errors import engine_unavailable, overloaded

_LOG = logging.getLogger(__name__)
AT_ONCE = 256
"""Sequences of one request that the core has at a time: one with thousands must not fill its line alone, nor be refused
for ever by a line that is shorter."""
BACKLOG_BYTES = 1 << 20
"""Of news that wait for a request whose caller reads slowly, in memory. Without log-probabilities 3,000 tokens."""
BACKLOG_BYTES_CHOICE = 128 << 10
"""More for each further sequence: a step brings news of all."""
_OUTPUT_BYTES, _TOKEN_BYTES, _LOGPROBS_BYTES, _ALTERNATIVE_BYTES = 300, 36, 220, 72
"""Measured."""


class CoreLink(Protocol):
    """The wire to one core process."""

    def send(self, message: CoreInbound) -> None:
        """Queue a message; never blocks."""
        ...

    def close(self) -> None: ...


class Flow:
    """The sequences of one HTTP request, from submission to their terminal outputs."""

    __slots__ = ("_news", "_num_bytes", "_num_bytes_max", "_waiter", "later", "live", "on_backlog")

    def __init__(self, requests: Sequence[AddRequest], at_once: int) -> None:
        self.live = {request.request_id for request in requests}
        """Sequences without a terminal output."""
        self.later = deque(requests[at_once:])
        """Of these, those that the core has not been told of yet."""
        self.on_backlog: Callable[[], None] | None = None
        """Called once, when more waits here than one request may let wait."""
        self._news: list[TokenOutput] = []
        self._num_bytes = 0
        """Of these, but for the one that woke the request."""
        self._num_bytes_max = BACKLOG_BYTES + BACKLOG_BYTES_CHOICE * (min(len(requests), at_once) - 1)
        self._waiter: asyncio.Future[None] | None = None

    def push(self, output: TokenOutput) -> None:
        self._news.append(output)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        else:
            self._weigh(output)

    async def next(self) -> list[TokenOutput]:
        """The outputs since the last call, of a backlog not more than a step may bring; waits for the first one."""
        if not self._news:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        news, self._news = self._news[:AT_ONCE], self._news[AT_ONCE:]
        self._num_bytes = sum(map(_size, self._news))
        return news

    def shed(self) -> None:
        """Keep of what waits here only what is counted: how many tokens there were, and the ends."""
        self.on_backlog = None
        self._news = [
            msgspec.structs.replace(output, logprobs=None, prompt_logprobs=None) for output in self._news
        ]

    def _weigh(self, output: TokenOutput) -> None:
        self._num_bytes += _size(output)
        if self._num_bytes > self._num_bytes_max and self.on_backlog is not None:
            self.on_backlog()


def _size(output: TokenOutput) -> int:
    """What an output takes in memory, about."""
    size = _OUTPUT_BYTES + _TOKEN_BYTES * len(output.token_ids)
    for positions in (output.logprobs, output.prompt_logprobs):
        if positions:
            size += len(positions) * (_LOGPROBS_BYTES + _ALTERNATIVE_BYTES * len(positions[-1].top_ids))
    return size


class Bridge:
    """All live sequences of this API process. Used from the event loop's thread only."""

    def __init__(
        self, clock: Callable[[], float], on_late_output: Callable[[], None], max_num_queued: int
    ) -> None:
        """`max_num_queued`: sequences that the core lets wait, for each of its two classes."""
        self._clock = clock
        self._max_num_queued = max_num_queued
        self._on_late_output = on_late_output
        self._link: CoreLink | None = None
        self._flows: dict[str, Flow] = {}
        self._num_later = 0
        """Of these, sequences that the core has not been told of."""
        self.ready: CoreReady | None = None
        """What the running core said about itself; None while there is none."""
        self.core_pid: int | None = None
        self.load = LoadStats()
        self.last_step_at = clock()
        """When the core last gave a sign of life."""

    @property
    def num_live(self) -> int:
        return len(self._flows)

    def core_up(self, ready: CoreReady, core_pid: int, link: CoreLink) -> None:
        assert self._link is None, "a core came up before the loss of the last one was reported"
        self._link, self.ready, self.core_pid = link, ready, core_pid
        self.load = LoadStats()
        self.last_step_at = self._clock()

    def core_down(self, reason: str) -> None:
        """The core is gone: every live sequence ends with an error, once."""
        if self._link is None:
            return
        self._link.close()
        self._link = self.ready = self.core_pid = None
        self._num_later = 0
        for flow in self._flows.values():
            flow.later.clear()
        self.load = LoadStats()
        if self._flows:
            _LOG.warning("the core is gone (%s): %d sequences fail", reason, len(self._flows))
        for request_id in list(self._flows):
            self._deliver(
                TokenOutput(
                    request_id=request_id,
                    finish_reason="error",
                    error_code="engine_error",
                    error_message="The engine process ended while it was answering.",
                )
            )

    def submit(self, requests: Sequence[AddRequest]) -> Flow:
        """Start sequences. Raises `ApiError` when no core runs, or when it takes nothing in any more: a core that
        listens keeps its own, tighter bounds and says how long to wait."""
        if self._link is None or self.ready is None:
            raise engine_unavailable()
        if len(self._flows) - self._num_later > 2 * (self._max_num_queued + self.ready.max_num_seqs):
            raise overloaded(None, None)
        at_once = min(AT_ONCE, self._max_num_queued)
        flow = Flow(requests, at_once)
        self._num_later += len(flow.later)
        for request in requests:
            assert request.request_id not in self._flows, "engine request ids are unique"
            self._flows[request.request_id] = flow
        for request in requests[:at_once]:
            self._link.send(request)
        return flow

    def abort(self, flow: Flow, request_ids: Iterable[str] | None = None) -> None:
        """Ask for the end of some or all sequences of a request; their terminals still come."""
        if request_ids is None:
            later, flow.later = flow.later, deque()
            self._num_later -= len(later)
            for request in later:
                self._deliver(TokenOutput(request_id=request.request_id, finish_reason="abort"))
        wanted = [
            index for index in (flow.live if request_ids is None else request_ids) if index in flow.live
        ]
        if wanted and self._link is not None:
            self._link.send(AbortRequest(request_ids=wanted))

    def on_step(self, step: StepOutputs) -> None:
        self.load = step.load
        self.last_step_at = self._clock()
        for output in step.outputs:
            self._deliver(output)

    def _deliver(self, output: TokenOutput) -> None:
        request_id = output.request_id
        flow = self._flows.get(request_id)
        if flow is None:
            self._on_late_output()
            return
        if output.finish_reason is not None:
            del self._flows[request_id]
            flow.live.discard(request_id)
            if flow.later and self._link is not None:
                self._num_later -= 1
                self._link.send(flow.later.popleft())
        flow.push(output)
