"""What one HTTP request has produced so far: the core's outputs become deltas, and are accounted for.

Between the bridge and `reply`, which writes the deltas: `choice` makes text of tokens, the journal and the metrics
count them. When the caller goes away, the core is told at once and the request runs on, silently, to its terminal
outputs. Knows neither the endpoints' shapes nor their parameters.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from engine.messages import AddRequest, TokenOutput
from engine.server.admission import Job
from engine.server.bridge import Flow
from engine.server.choice import Choice, Delta
from engine.server.continuation import TokenIdLines, replay
from engine.server.errors import ApiError, from_core, journal_unavailable, reader_too_slow
from engine.server.failpoints import Point, failpoint
from engine.server.journal import PROGRESS_S, PROGRESS_TOKENS, Record, RecordKind
from engine.server.responses import Usage
from engine.server.services import Services

_LOG = logging.getLogger(__name__)
_WORST_FIRST = ("error", "abort", "length", "stop")
_COUNTED_AS = {"tool_calls": "stop"}
"""Finish reasons that only the caller makes a difference of."""
_WRITTEN: Final[Mapping[RecordKind, Point]] = {
    "start": "journal.started",
    "progress": "journal.progressed",
    "end": "journal.ended",
}


@dataclass(slots=True)
class _Times:
    """Of one sequence, on the monotonic clock."""

    first: float | None = None
    last: float = field(default=0.0)


class Generation:
    """What one request has produced so far."""

    def __init__(self, services: Services, job: Job) -> None:
        self.caller = job.caller
        self.usage = Usage(job.num_prompt_tokens)
        if job.resumed is not None:
            self.usage.cached_tokens = job.resumed.start.cached_tokens
        if job.options.format is not None and job.options.format.reasoning is not None:
            self.usage.reasoning_tokens = 0
        self.error: ApiError | None = None
        self._services = services
        self._job = job
        self._flow: Flow | None = None
        self.replayed: list[Delta] = []
        """News of an answer that was begun elsewhere."""
        self.opened: set[int] = set()
        """Choices whose beginning the caller has seen."""
        self.seen_ends: frozenset[int] = frozenset() if job.resumed is None else job.resumed.ended
        self._choices: dict[str, Choice] = {}
        self._live: list[AddRequest] = []
        """What the core gets."""
        self._reasons: set[str] = set()
        for index, request in enumerate(job.requests):
            self._take_up(index, request)
        self._times = {request_id: _Times() for request_id in self._choices}
        self._arrived = services.clock()
        self._epoch = services.bridge.ready.epoch if services.bridge.ready else None
        self._cached_tokens = 0
        """Found in the cache here, whatever the caller's usage says."""
        self._replayed_tokens = self.usage.completion_tokens
        self._journalled_tokens = 0
        self._journalled_at = self._arrived
        self._ended = False
        self._num_unfinished = len(self._live)
        self._scores_only = job.options.scores_only

    def token_id_lines(self, path: str) -> TokenIdLines | None:
        """For a stream of the gateway, if it asks for them."""
        if not self.caller.emit_token_ids:
            return None
        return TokenIdLines(self._job, path, self._services.model_hash)

    def start(self) -> None:
        self.journal("start")
        if self._live:
            self._flow = self._services.bridge.submit(self._live)
        metrics, job = self._services.metrics, self._job
        metrics.observe("vllm:request_params_n", job.n)
        metrics.observe("vllm:request_params_max_tokens", job.requests[0].sampling.max_tokens)

    async def next(self) -> tuple[list[Delta], bool]:
        """What the next step brought for the caller, and whether that was all. The list is empty after a
        failure and while text is held back."""
        if self._flow is None:
            assert self._num_unfinished == 0, "started first"
            return [], True
        deltas = []
        for output in await self._flow.next():
            delta = self._take(output)
            if delta is not None and self.error is None:
                deltas.append(delta)
        self._journal_progress()
        return deltas, self._num_unfinished == 0

    def abort(self) -> None:
        """End the answer here: what was produced is delivered, with finish_reason "abort"."""
        if self._flow is not None:
            self._services.bridge.abort(self._flow)

    def end_for_length(self) -> None:
        """End the answer here as `max_tokens` would: what was produced is delivered, with finish_reason "length"."""
        going_on = [choice for choice in self._choices.values() if not choice.closed]
        if going_on:
            for choice in going_on:
                choice.cut()
            self.abort()

    def caller_gone(self) -> None:
        for choice in self._choices.values():
            choice.closed = True
        self._services.metrics.count("engine_client_disconnects")
        _LOG.info("request %s: the caller went away; aborting", self._job.id)
        self.abort()

    def bound_backlog(self) -> None:
        """For a stream: what its caller does not read must not collect without end."""
        if self._flow is not None:
            self._flow.on_backlog = self._reader_too_slow

    def _reader_too_slow(self) -> None:
        """The answer ends behind what was written so far: what waits will be counted, and is not reported."""
        assert self._flow is not None
        for choice in self._choices.values():
            choice.closed = True
        if self.error is None:
            self.error = reader_too_slow()
        self._reasons.add("abort")
        self._services.metrics.count("engine_slow_readers")
        _LOG.warning("request %s: its caller reads too slowly; aborting", self._job.id)
        self._flow.shed()
        self.abort()

    def abandon(self) -> None:
        """Leave nothing behind if the path ended early, by an error of ours."""
        self.abort()
        if not self._ended:
            self._reasons.add("error")
            self.journal("end")

    def usage_for_error(self) -> dict[str, object] | None:
        """Only the gateway learns what a failed answer had already reported, and only if it had."""
        if not self.caller.internal or not self.usage.completion_tokens:
            return None
        return self.usage.document()

    def journal(self, kind: RecordKind) -> None:
        """What cannot be journalled is not begun; what is under way goes on, since the caller is told its usage."""
        now = self._services.clock()
        produced = None if kind == "start" else self._num_reported
        resumed = self._job.resumed
        record = Record(
            kind=kind,
            request_id=self.caller.gateway_request_id,
            engine_request_id=self._job.id,
            attempt=self.caller.attempt,
            epoch=self._epoch,
            prompt_tokens=self.usage.prompt_tokens + self._replayed_tokens,
            cached_tokens=None if kind == "start" else self._cached_tokens,
            completion_tokens=produced,
            resumed_from=None if resumed is None else resumed.attempt,
        )
        if kind == "end":
            self._ended = True
            record = self._with_outcome(record, now)
            failpoint("journal.before_end")
        self._journalled_tokens, self._journalled_at = produced or 0, now
        try:
            self._services.journal.write(record)
            failpoint(_WRITTEN[kind])
        except OSError as error:
            self._services.metrics.count("engine_journal_errors")
            _LOG.exception("the %s of request %s is not in the journal", kind, self._job.id)
            if kind == "start":
                self._ended = True  # there is nothing to end
                raise journal_unavailable() from error

    def _with_outcome(self, record: Record, now: float) -> Record:
        reason = next((name for name in _WORST_FIRST if name in self._reasons), "error")
        first = min((t.first for t in self._times.values() if t.first is not None), default=None)
        overrun = sum(choice.num_overrun for choice in self._choices.values())
        self._services.metrics.count("engine_overrun_tokens", overrun)
        return msgspec.structs.replace(
            record,
            overrun_tokens=overrun,
            finish_reason=reason,
            queue_ms=self.queue_ms,
            ttft_ms=None if first is None else round((first - self._arrived) * 1000, 3),
            e2e_ms=round((now - self._arrived) * 1000, 3),
        )

    @property
    def queue_ms(self) -> float | None:
        """How long it waited until the first of its choices had a row; None until one has."""
        waits = [choice.queue_ms for choice in self._choices.values() if choice.queue_ms is not None]
        return min(waits, default=None)

    @property
    def _num_reported(self) -> int:
        """Tokens that the caller has from this engine."""
        return self.usage.completion_tokens - self._replayed_tokens

    def _take_up(self, index: int, request: AddRequest) -> None:
        """Make a choice, and bring it to where it stood if it was begun elsewhere."""
        job, services = self._job, self._services
        ready = services.bridge.ready
        ends = set(request.sampling.stop_token_ids)
        if ready is not None and not request.sampling.ignore_eos:
            ends.update(ready.eos_token_ids)

        def make() -> Choice:
            return Choice(request.request_id, index, services.text.tokenizer, job.options)

        choice, deltas, request = replay(request, make, frozenset(ends))
        self._choices[request.request_id] = choice
        self.replayed += deltas
        self.usage.completion_tokens += choice.num_tokens
        if self.usage.reasoning_tokens is not None:
            self.usage.reasoning_tokens += choice.num_reasoning_tokens
        # Of a lone choice something was relayed, or there was no need to go on with it.
        if job.resumed is not None and (deltas or len(job.requests) == 1):
            self.opened.add(index)
        if choice.finished:
            reasons = [delta.finish_reason for delta in deltas if delta.finish_reason]
            self._reasons.update(_COUNTED_AS.get(reason, reason) for reason in reasons)
        else:
            self._live.append(request)

    def _journal_progress(self) -> None:
        produced = self._num_reported
        if self._ended or produced == self._journalled_tokens:
            return
        first = self._journalled_tokens == 0
        many = produced - self._journalled_tokens >= PROGRESS_TOKENS
        if first or many or self._services.clock() - self._journalled_at >= PROGRESS_S:
            self.journal("progress")

    def _take(self, output: TokenOutput) -> Delta | None:
        choice = self._choices[output.request_id]
        before, was_stopped = choice.num_tokens, choice.stopped
        reasoning_before = choice.num_reasoning_tokens
        delta = choice.take(output)
        if self.usage.reasoning_tokens is not None:
            self.usage.reasoning_tokens += choice.num_reasoning_tokens - reasoning_before
        if choice.num_tokens > before:
            self._count_tokens(choice, choice.num_tokens - before)
        elif (output.token_ids or output.embedding) and self._scores_only and choice.index % self._job.n == 0:
            self._first_answer_of_prompt(choice)
        if output.finish_reason is not None:
            self._num_unfinished -= 1
            self._finish(choice, output, delta)
        elif choice.stopped and not was_stopped and self._flow is not None:
            self._services.bridge.abort(self._flow, [output.request_id])
        return delta

    def _count_tokens(self, choice: Choice, num_new: int) -> None:
        now, metrics, times = self._services.clock(), self._services.metrics, self._times[choice.request_id]
        self.usage.completion_tokens += num_new
        metrics.count("vllm:generation_tokens", num_new)
        if times.first is None:
            times.first = now
            metrics.observe("vllm:time_to_first_token_seconds", now - self._arrived)
            if choice.index % self._job.n == 0:
                self._first_answer_of_prompt(choice)
            num_new -= 1
        elif num_new:
            metrics.observe("vllm:inter_token_latency_seconds", (now - times.last) / num_new, num_new)
        times.last = now

    def _first_answer_of_prompt(self, choice: Choice) -> None:
        """A prompt counts once; its other answers find it in the cache anyway."""
        self._cached_tokens += choice.cached_tokens or 0
        if self._job.resumed is None:
            self.usage.cached_tokens = self._cached_tokens
        num_prompt_tokens = len(self._job.requests[choice.index].prompt_token_ids)
        self._services.metrics.count("vllm:prompt_tokens", num_prompt_tokens)
        self._services.metrics.observe("vllm:request_prompt_tokens", num_prompt_tokens)

    def _finish(self, choice: Choice, output: TokenOutput, delta: Delta | None) -> None:
        if output.finish_reason == "error" and not choice.stopped:
            self._reasons.add("error")
            if self.error is None:
                self.error = from_core(
                    output.error_code, output.error_message, output.retry_after_s, output.error_param
                )
                self.abort()  # the other sequences of this request
            return
        reason = delta.finish_reason if delta is not None and delta.finish_reason else "abort"
        reason = _COUNTED_AS.get(reason, reason)
        self._reasons.add(reason)
        self._observe_finish(choice, reason)

    def _observe_finish(self, choice: Choice, reason: str) -> None:
        metrics, times = self._services.metrics, self._times[choice.request_id]
        metrics.count("vllm:request_success", label=f"finished_reason={reason}")
        metrics.observe("vllm:request_generation_tokens", choice.num_tokens)
        if times.first is None:
            return
        queue_s = (choice.queue_ms or 0.0) / 1000
        decode_s, total_s = times.last - times.first, times.last - self._arrived
        metrics.observe("vllm:e2e_request_latency_seconds", total_s)
        metrics.observe("vllm:request_queue_time_seconds", queue_s)
        metrics.observe("vllm:request_inference_time_seconds", max(0.0, total_s - queue_s))
        metrics.observe("vllm:request_prefill_time_seconds", max(0.0, total_s - decode_s - queue_s))
        metrics.observe("vllm:request_decode_time_seconds", decode_s)
        if choice.num_tokens > 1:
            metrics.observe("vllm:request_time_per_output_token_seconds", decode_s / (choice.num_tokens - 1))
