"""From a step's result to news for the callers: accepts tokens, notices the end, counts what overran it.

`loop` calls `absorb` for every collected step and `fail_batch` for a failed one; the `Outbox` keeps the
news by API process until the loop flushes it. Exactly one output per request carries a finish reason:
`end` makes it, or `admission` refuses. Knows no text: stop strings are the API process's affair.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engine.core.contract import StepResult
from engine.core.ports import Emit
from engine.core.request import Phase, Request
from engine.core.scheduler import Scheduler
from engine.core.step import Step
from engine.messages import FinishReason, LoadStats, StepOutputs, TokenLogprobs, TokenOutput


class Outbox:
    """One message per step and API process, and to a silent one a heartbeat."""

    def __init__(self, emit: Emit, num_workers: int, heartbeat_s: float) -> None:
        self._emit = emit
        self._heartbeat_s = heartbeat_s
        self._outputs: list[list[TokenOutput]] = [[] for _ in range(num_workers)]
        self._spoke_s = [float("-inf")] * num_workers

    def put(self, worker: int, output: TokenOutput) -> None:
        self._outputs[worker].append(output)

    def tokens(self, request: Request, token: int, logprobs: TokenLogprobs | None) -> None:
        """One more token of an answer that goes on."""
        if logprobs is None:
            output = TokenOutput(request_id=request.id, token_ids=[token])
        else:
            output = TokenOutput(request_id=request.id, token_ids=[token], logprobs=[logprobs])
        self._outputs[request.worker].append(output if request.has_reported else _first(request, output))

    def flush(self, load: LoadStats, now: float) -> None:
        for worker, outputs in enumerate(self._outputs):
            if outputs or now - self._spoke_s[worker] >= self._heartbeat_s:
                self._outputs[worker] = []
                self._spoke_s[worker] = now
                self._emit(worker, StepOutputs(outputs=outputs, load=load))

    def silence(self, worker: int) -> None:
        """The API process is gone: nobody listens for what is left."""
        self._outputs[worker] = []


def absorb(
    step: Step, result: StepResult, later: Sequence[Step], scheduler: Scheduler, outbox: Outbox
) -> None:
    """Take over what a step produced. `later`: the steps in flight after it."""
    assert result.step == step.schedule.step, "results come in the order of launch"
    if result.failures:
        _spoil(step, set(result.failures), later, scheduler)
    tokens, failures, ignored, finished = result.tokens, result.failures, step.ignored_rows, Phase.FINISHED
    logprobs, prompt_logprobs = result.logprobs, result.prompt_logprobs
    for work, request in zip(step.schedule.work, step.requests, strict=True):
        row = work.row
        if request.phase is finished or row in ignored:
            continue
        if row in failures:
            code = "invalid_grammar" if row in result.refused else "engine_error"
            end(request, "error", scheduler, outbox, code=code, message=failures[row])
            continue
        if row in prompt_logprobs:
            _report_prompt(request, work.start, prompt_logprobs[row], outbox)
        if row in result.embeddings:
            end(request, "stop", scheduler, outbox, embedding=result.embeddings[row])
        elif work.samples:
            assert row in tokens, f"step {result.step} has no token for row {row}"
            _accept(request, tokens[row], logprobs.get(row), scheduler, outbox)


def fail_batch(step: Step, message: str, later: Sequence[Step], scheduler: Scheduler, outbox: Outbox) -> None:
    """The whole step failed: its requests end, the engine goes on."""
    _spoil(step, {work.row for work in step.schedule.work}, later, scheduler, whole=True)
    for request in step.requests:
        if request.phase is not Phase.FINISHED:
            end(request, "error", scheduler, outbox, message=message)


def end(
    request: Request,
    reason: FinishReason,
    scheduler: Scheduler,
    outbox: Outbox,
    *,
    token: int | None = None,
    logprobs: TokenLogprobs | None = None,
    embedding: bytes | None = None,
    code: str = "engine_error",
    message: str | None = None,
    retry_after_s: float | None = None,
) -> None:
    """The one terminal output of a live request, and its removal."""
    failed, is_token = reason == "error", embedding is None
    output = TokenOutput(
        request_id=request.id,
        token_ids=[] if token is None else [token],
        logprobs=None if logprobs is None else [logprobs],
        finish_reason=reason,
        embedding=embedding,
        stop_token_id=token if reason == "stop" else None,
        num_overrun_tokens=request.num_unseen_tokens if is_token and not failed else 0,
        error_code=code if failed else None,
        error_message=message,
        error_param=_grammar_field(request) if code == "invalid_grammar" else None,
        retry_after_s=retry_after_s,
    )
    scheduler.finish(request)
    outbox.put(request.worker, output if request.has_reported else _first(request, output))


def end_reason(request: Request, token: int) -> FinishReason | None:
    """Whether the answer is over with `token`, its last one. An end token counts only after
    `min_tokens` others: until then the sampler masks it, unless a grammar leaves nothing else."""
    num_output_tokens, sampling = request.num_output_tokens, request.sampling
    if token in request.end_ids and (num_output_tokens > sampling.min_tokens or sampling.grammar is not None):
        return "stop"
    return "length" if num_output_tokens >= sampling.max_tokens else None


def _grammar_field(request: Request) -> str | None:
    grammar = request.sampling.grammar
    return None if grammar is None else grammar.param


def _accept(
    request: Request, token: int, logprobs: TokenLogprobs | None, scheduler: Scheduler, outbox: Outbox
) -> None:
    token_ids, account = request.token_ids, request.account
    token_ids.append(token)
    num_tokens = len(token_ids)
    assert num_tokens <= request.num_tokens
    if num_tokens >= request.publish_at <= request.num_computed:
        scheduler.kv.publish(request)
    assert account is not None
    account.served += request.output_cost
    if num_tokens < request.max_total_tokens and token not in request.end_ids:
        outbox.tokens(request, token, logprobs)  # nearly always
        return
    reason = end_reason(request, token)
    if reason is None:
        outbox.tokens(request, token, logprobs)
    else:
        end(request, reason, scheduler, outbox, token=token, logprobs=logprobs)


def _report_prompt(request: Request, start: int, found: list[TokenLogprobs], outbox: Outbox) -> None:
    """The first of `found` belongs to the token at `start + 1`. What a preempted request computes again was
    reported before."""
    fresh = found[max(0, request.num_prompt_logprobs - start) :]
    if fresh:
        assert start <= request.num_prompt_logprobs, "a part of the prompt was skipped"
        request.num_prompt_logprobs += len(fresh)
        output = TokenOutput(request_id=request.id, prompt_logprobs=fresh)
        outbox.put(request.worker, output if request.has_reported else _first(request, output))


def _spoil(
    step: Step, rows: set[int], later: Sequence[Step], scheduler: Scheduler, *, whole: bool = False
) -> None:
    pairs = zip(step.schedule.work, step.requests, strict=True)
    failed = [(request, work.start) for work, request in pairs if work.row in rows]
    scheduler.spoil(failed, [step, *later], whole=whole)


def _first(request: Request, output: TokenOutput) -> TokenOutput:
    """The first output of a request says in addition how it began."""
    request.has_reported = True
    return msgspec.structs.replace(
        output, num_cached_tokens=request.num_cached_tokens, queue_ms=request.queue_ms
    )
