"""The core's busy loop: drain inbox → schedule → launch → collect previous → emit.

The process main constructs it and calls `run`. With two steps in flight, step N+1 is scheduled and launched
while N runs: what N samples is by then only a position in the runner's table. Everything that happens to
a request happens in here, in this thread. Knows no sockets, tensors or clocks but those it is given.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import Generic

from engine.core.admission import OVERLOADED, Refusal, displaced, overload, refusal
from engine.core.closing import Closing
from engine.core.config import CoreConfig
from engine.core.contract import BatchError, HandleT, Runner
from engine.core.load import LoadMeter
from engine.core.output import Outbox, absorb, end, fail_batch
from engine.core.ports import Clock, Emit, Inbox
from engine.core.request import Request
from engine.core.scheduler import Scheduler
from engine.core.step import Step
from engine.messages import AbortRequest, AddRequest, CoreInbound, Shutdown, WorkerGone

_log = logging.getLogger(__name__)

STEP_FAILED = "the engine failed while it computed this answer"
"""For callers; why it failed is for the log."""


@dataclass(frozen=True, slots=True)
class _Flight(Generic[HandleT]):
    step: Step
    handle: HandleT
    launched_s: float


class Loop(Generic[HandleT]):
    """One engine core. `run` returns after `Shutdown`; an exception means that the runner, or the
    bookkeeping, is lost and the process must exit."""

    def __init__(
        self, inbox: Inbox, runner: Runner[HandleT], emit: Emit, clock: Clock, config: CoreConfig
    ) -> None:
        self._inbox = inbox
        self._runner = runner
        self._clock = clock
        self._config = config
        self._scheduler = Scheduler(config)
        self._outbox = Outbox(emit, config.num_workers, config.heartbeat_s)
        self._load = LoadMeter(self._scheduler, config)
        self._closing = Closing()
        self._flights: deque[_Flight[HandleT]] = deque()
        self._num_arrivals = 0
        self._is_checked = True
        self._is_stopping = False

    def run(self) -> None:
        while not self._is_stopping:
            self.turn()
        while self._flights:
            self._collect()

    def turn(self) -> None:
        """One round of the loop: at most one step launched, at most one collected."""
        num_messages = self._receive_all(self._patience_s())
        if self._config.closes_late and len(self._flights) == 1:
            num_messages += self._wait_for_arrivals(self._flights[0])
        if self._is_stopping:
            self._abort(list(self._scheduler.live.values()))
        self._expire()
        began_s = self._clock()
        step = self._scheduler.schedule(began_s)
        if step is not None:
            handle = self._runner.launch(step.schedule)
            launched_s = self._clock()
            self._closing.launched(began_s, launched_s)
            self._flights.append(_Flight(step, handle, launched_s))
        assert self.is_idle or self._flights, "requests wait and nothing will ever move them"
        if self._flights and (step is None or len(self._flights) == self._config.steps_in_flight):
            self._collect()
        self._check(is_quiet=step is None and num_messages == 0 and not self._flights)
        self._outbox.flush(self._load.stats(), self._clock())

    def check_integrity(self) -> None:
        self._scheduler.check_integrity()

    @property
    def is_idle(self) -> bool:
        return not self._scheduler.live and not self._flights

    def _patience_s(self) -> float:
        """With nothing to compute, wait for a message, but not past the next heartbeat."""
        return self._config.heartbeat_s if self.is_idle else 0.0

    def _receive_all(self, patience_s: float) -> int:
        messages = self._inbox.drain(patience_s)
        for message in messages:
            self._receive(message)
        return len(messages)

    def _wait_for_arrivals(self, running: _Flight[HandleT]) -> int:
        """Until the batch that follows the running step is closed. Returns how many messages came."""
        count = 0
        while not self._is_stopping:
            left_s = self._closing.time_left(running.step, running.launched_s, self._clock())
            if left_s <= 0:
                break
            count += self._receive_all(left_s)
        return count

    def _receive(self, message: CoreInbound) -> None:
        match message:
            case AddRequest():
                self._add(message)
            case AbortRequest():
                live = self._scheduler.live
                self._abort([live[id] for id in dict.fromkeys(message.request_ids) if id in live])
            case WorkerGone():
                requests = self._scheduler.live.values()
                self._abort([request for request in requests if request.worker == message.worker])
                self._outbox.silence(message.worker)
            case Shutdown():
                self._is_stopping = True

    def _add(self, message: AddRequest) -> None:
        if message.request_id in self._scheduler.live:
            # Answering would end the live request of that name for its caller.
            _log.error("request %s is live already; the second one is dropped", message.request_id)
            return
        request = Request.from_message(
            message,
            sequence=self._num_arrivals,
            now=self._clock() - message.held_s,
            eos_token_ids=self._config.eos_token_ids,
            patience_s=self._config.queue_timeout_s,
        )
        self._num_arrivals += 1
        refused = refusal(request, self._scheduler, self._config) or displaced(request, self._scheduler)
        if isinstance(refused, Refusal):
            self._scheduler.num_refused += refused.code == OVERLOADED
            self._outbox.put(request.worker, refused.as_output(request.id))
            return
        self._scheduler.add(request)
        for other in refused:
            self._refuse_waiting(other, "the waiting line is full")

    def _abort(self, requests: list[Request]) -> None:
        for request in requests:
            end(request, "abort", self._scheduler, self._outbox)

    def _expire(self) -> None:
        for request in self._scheduler.waiting.overdue(self._clock()):
            self._refuse_waiting(request, "waited too long")

    def _refuse_waiting(self, request: Request, reason: str) -> None:
        refused = overload(reason, self._scheduler.waiting.retry_after_s())
        self._scheduler.num_refused += 1
        end(
            request,
            "error",
            self._scheduler,
            self._outbox,
            code=refused.code,
            message=refused.message,
            retry_after_s=refused.retry_after_s,
        )

    def _collect(self) -> None:
        """Wait for the oldest step in flight and take over what it produced."""
        flight = self._flights.popleft()
        later = [each.step for each in self._flights]
        result = None
        try:
            result = self._runner.collect(flight.handle)
        except BatchError:
            _log.exception("step %d failed", flight.step.schedule.step)
            fail_batch(flight.step, STEP_FAILED, later, self._scheduler, self._outbox)
        else:
            absorb(flight.step, result, later, self._scheduler, self._outbox)
        self._scheduler.retire(flight.step)
        now = self._clock()
        self._load.step_done(flight.step, result, flight.launched_s, now)
        self._closing.ended(flight.step, flight.launched_s, now)
        self._is_checked = False

    def _check(self, *, is_quiet: bool) -> None:
        """Every page and request is accounted for. When a whole heartbeat went by without work, so that
        the check delays nobody; in debugging after every step."""
        if self._config.debug_invariants or (is_quiet and not self._is_checked):
            self.check_integrity()
            self._is_checked = True
