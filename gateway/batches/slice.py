"""A slice of a batch: its next lines, some of them at once, each asked through the request path until it has its answer.

A line is done when its result is stored. When the slice is over no line is begun any more and those in flight end; the
next slice begins with the first line that is not done.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from gateway.batches import answers
from gateway.batches.keeper import Keeper
from gateway.batches.lines import ENDPOINTS, Line, RawLine, raw_lines, read_line
from gateway.batches.naming import request_id
from gateway.batches.parts import Parts
from gateway.batches.past import FRESH, Past, pasts_of
from gateway.batches.repository.running import answered_lines
from gateway.batches.results import LeaseLost, ResultWriter
from gateway.batches.types import Lease, blob_key
from gateway.batches.verdicts import PATIENCE, Verdict, judge
from gateway.errors import GatewayError, UnsupportedParameter
from gateway.exchange import Caller, ClientGone
from gateway.exchange.responses import ResponseSink
from gateway.ids import RequestId
from gateway.obs.logging import get_logger
from gateway.routing.target import BATCH_CLASS
from gateway.tenancy.principal import Principal
from gateway.wire import parse_generation
from gateway.wire.request import RESPONSES
from gateway.wire.responses import parse_response

__all__ = ["Place", "Slice", "lines_from"]

ATTEMPTS_APART = 10
"""Of two runs of a line by workers that died: more than one run makes."""
ATTEMPT_MAX = 30_000
POLL_S = 0.5

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """A line, and the byte that it begins at."""

    line: int
    offset: int


@dataclass(slots=True)
class _Try:
    """A line on its way to its answer."""

    number: int
    line: Line
    past: Past
    run: int
    broken: int = 0
    waits: int = 0


class Slice:
    def __init__(
        self,
        parts: Parts,
        lease: Lease,
        keeper: Keeper,
        results: ResultWriter,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._p = parts
        self._lease = lease
        self._keeper = keeper
        self._results = results
        self._is_stopping = is_stopping
        self._ends_at = parts.clock.monotonic() + parts.terms.slice_s
        self._begun = 0
        self._asking = 0
        self._width = parts.terms.lines_at_once
        self._paused_until = 0.0
        self._patience = PATIENCE
        self._changed = asyncio.Event()
        self._is_broken = False
        self._pasts: Mapping[int, Past] = {}
        self._open: dict[int, RawLine] = {}
        """Begun, and not done."""
        self._beyond = Place(max(1, lease.next_line), lease.next_offset)
        """Behind the last line that was looked at."""

    @property
    def pause_s(self) -> float:
        """How long the batch has to wait before more of it makes sense."""
        return max(0.0, self._paused_until - self._p.clock.monotonic())

    async def run(self) -> Place:
        """Where the next slice begins. Raises LeaseLost, FileNotFoundError and BlobError."""
        done = await self._look_back()
        tasks: set[asyncio.Task[None]] = set()
        try:
            async with aclosing(lines_from(self._p, self._lease, self._beyond)) as lines:
                async for raw in lines:
                    if raw.number not in done and not await self._begin(raw, tasks):
                        break
                    self._beyond = Place(raw.number + 1, raw.ends)
            await _all_of(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        first = min(self._open, default=None)
        return self._beyond if first is None else Place(first, self._open[first].begins)

    async def _begin(self, raw: RawLine, tasks: set[asyncio.Task[None]]) -> bool:
        """False if the slice is over."""
        while len(self._open) >= self._p.terms.lines_at_once and not self._is_over():
            await self._wait(POLL_S)
        if self._is_over() or self._begun >= self._p.terms.slice_lines:
            return False
        self._begun += 1
        self._open[raw.number] = raw
        task = asyncio.create_task(self._line(raw))
        tasks.add(task)
        task.add_done_callback(self._ended)
        return True

    async def _look_back(self) -> set[int]:
        """The lines from here on that have results; and what became of the others, if somebody was here before."""
        batch_id, first = self._lease.batch.id, self._beyond.line
        async with self._p.database.transaction() as connection:
            done = await answered_lines(connection, self._lease)
            if self._lease.epoch > 1:
                last = first + self._p.terms.slice_lines + len(done)
                undone = [number for number in range(first, last) if number not in done]
                self._pasts = await pasts_of(connection, batch_id, undone)
        return done

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._is_broken |= not task.cancelled() and task.exception() is not None
        self._wake()

    def _is_over(self) -> bool:
        if self._is_broken:
            return True
        clock = self._p.clock
        is_late = clock.monotonic() >= self._ends_at or clock.now() >= self._lease.batch.expires_at
        return is_late or self._is_stopping() or not self._keeper.may_go_on

    async def _line(self, raw: RawLine) -> None:
        past = self._pasts.get(raw.number, FRESH)
        if past.holds:
            await self._p.holds.give_back(past.holds)
        one = _Try(raw.number, read_line(raw, self._lease.batch.endpoint), past, past.run)
        while await self._turn():
            try:
                verdict = await self._ask(one)
            finally:
                self._asking -= 1
                self._wake()
            if verdict is None:
                self._width = min(self._width + 1, self._p.terms.lines_at_once)
                del self._open[raw.number]
                return
            self._heed(one, verdict)

    async def _turn(self) -> bool:
        """True when a line may be asked now; then it counts as being asked."""
        while not self._is_over():
            if not self.pause_s and self._asking < self._width:
                self._asking += 1
                return True
            await self._wait(min(POLL_S, self.pause_s or POLL_S))
        return False

    async def _ask(self, one: _Try) -> Verdict | None:
        """None when its result is stored."""
        principal = self._keeper.principal
        assert principal is not None, "a slice without a caller is over"
        named = request_id(self._lease.batch.id, one.number, one.run)
        try:
            await self._send(one, named, principal)
        except GatewayError as error:
            verdict = judge(
                error,
                broken=one.broken,
                waits=one.waits,
                is_alone=self._asking == 1,
                patience=self._patience,
            )
            if verdict.kind == "final":
                batch_id = self._lease.batch.id
                result = answers.refused(batch_id, one.number, one.line.custom_id, named, error)
                await self._results.put(result)
                self._count("refused")
                return None
            if error.is_settled and not one.past.is_paid:
                one.run += 1
            return verdict
        if one.past.is_paid:
            # It was charged before, so nothing else takes its hold away.
            await self._p.holds.give_back([named])
        self._patience = PATIENCE
        self._count("answered")
        return None

    async def _send(self, one: _Try, named: RequestId, principal: Principal) -> None:
        endpoint = ENDPOINTS[self._lease.batch.endpoint]
        asked = parse_response(one.line.body) if endpoint == RESPONSES else None
        request = asked.request if asked is not None else parse_generation(endpoint, one.line.body)
        if request.stream:
            raise UnsupportedParameter("stream")
        first = min(ATTEMPT_MAX, self._lease.takeovers * ATTEMPTS_APART)
        caller = Caller(principal, request_class=BATCH_CLASS, first_attempt=first)
        answer = _Answer(self._results, self._lease.batch.id, one.number, one.line.custom_id, named)
        sink = ResponseSink(answer, asked, named) if asked is not None else answer
        try:
            await self._p.requests.run(caller, request, named, sink)
        except ClientGone:
            if answer.is_lost:
                raise LeaseLost from None
            raise

    def _heed(self, one: _Try, verdict: Verdict) -> None:
        if verdict.kind == "narrow":
            self._width = max(1, self._asking)
            return
        self._patience -= verdict.kind == "poor"
        one.broken += verdict.kind == "again"
        one.waits += verdict.kind == "wait"
        until = self._p.clock.monotonic() + verdict.pause_s
        self._paused_until = max(self._paused_until, until)

    def _count(self, result: str) -> None:
        self._p.metrics.batch_lines.labels(result).inc()

    def _wake(self) -> None:
        self._changed.set()

    async def _wait(self, at_most_s: float) -> None:
        self._changed.clear()
        try:
            async with asyncio.timeout(at_most_s):
                await self._changed.wait()
        except TimeoutError:
            return


class _Answer:
    """Stores an answer before its request is settled: what is paid for is there."""

    def __init__(
        self, results: ResultWriter, batch_id: str, number: int, custom_id: str, named: RequestId
    ) -> None:
        self._results = results
        self._place = (batch_id, number, custom_id, named)
        self.is_lost = False

    async def whole(self, headers: Mapping[str, str], body: bytes) -> None:
        try:
            await self._results.put(answers.answered(*self._place, body))
        except LeaseLost:
            self.is_lost = True
            raise ClientGone from None

    async def stream(self, headers: Mapping[str, str], data: bytes, *, last: bool) -> None:
        assert not data, "lines of batches are not streamed"

    def write(self, data: bytes) -> bool:
        raise AssertionError("lines of batches are not streamed")


async def lines_from(parts: Parts, lease: Lease, place: Place) -> AsyncGenerator[RawLine, None]:
    """The lines of the input file from a place on; none behind the last one."""
    if lease.batch.total and place.line > lease.batch.total:
        return
    key = blob_key(lease.batch.tenant_id, lease.batch.input_file_id)
    async with aclosing(raw_lines(parts.blobs.read(key, place.offset), place.line, place.offset)) as lines:
        async for raw in lines:
            yield raw


async def _all_of(tasks: set[asyncio.Task[None]]) -> None:
    """Each ends by itself; the first failure is told when all have."""
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
