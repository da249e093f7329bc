"""Where requests with a grammar wait until it is compiled: outside the scheduler's line, in nobody's way.

Place in the path: the core's loop reads its inbox and emits through here; requests without a grammar pass untouched.
A grammar that is known already costs nothing; one that is refused ends its requests here, with their one terminal
output. Compilations take turns between fairness ids, so a caller with many does not keep the others waiting. Runs on
the core's thread and never waits. Knows no tokens.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Protocol

from msgspec.structs import replace

from engine.core.admission import OVERLOADED
from engine.core.ports import Emit, Inbox
from engine.grammar.bound import BoundGrammar
from engine.grammar.cache import GrammarCache
from engine.grammar.compiler import NUM_THREADS, Key, Outcome
from engine.messages import (
    AbortRequest,
    AddRequest,
    CoreInbound,
    LoadStats,
    Shutdown,
    StepOutputs,
    TokenOutput,
    WorkerGone,
)


class Jobs(Protocol):
    """The part of `compiler.Compiler` that is used here."""

    def submit(self, key: Key) -> None: ...

    def take(self) -> list[Outcome]: ...


class GrammarDesk:
    """`ports.Inbox` of the loop, and its `emit`."""

    def __init__(self, inbox: Inbox, emit: Emit, jobs: Jobs, cache: GrammarCache) -> None:
        self._inbox = inbox
        self._send = emit
        self._jobs = jobs
        self._cache = cache
        self._load = LoadStats()
        self._held: dict[str, AddRequest] = {}
        """Requests whose grammar is not compiled yet."""
        self._waiting: dict[Key, list[str]] = {}
        """Grammar → held requests that need it."""
        self._queues: OrderedDict[str, deque[Key]] = OrderedDict()
        """Fairness id → grammars not submitted yet; the first id is next."""
        self._num_running = 0

    def drain(self, timeout_s: float) -> list[CoreInbound]:
        """See `ports.Inbox`. Requests whose grammar is ready come first, then what arrived."""
        arrived = self._inbox.drain(timeout_s)
        messages: list[CoreInbound] = []
        for outcome in self._jobs.take():
            self._num_running -= 1
            messages += self._finished(outcome)
        for message in arrived:
            messages += self._sort(message)
        self._submit_next()
        return messages

    def emit(self, worker: int, step: StepOutputs) -> None:
        self._load = step.load
        self._send(worker, step)

    def _sort(self, message: CoreInbound) -> list[CoreInbound]:
        match message:
            case AddRequest() if message.sampling.grammar is not None:
                return self._add(message)
            case AbortRequest():
                self._abort(index for index in message.request_ids if index in self._held)
            case WorkerGone():
                gone = [request for request in self._held.values() if request.worker == message.worker]
                for request in gone:
                    self._forget(request.request_id)
            case Shutdown():
                self._abort(list(self._held))
        return [message]

    def _add(self, request: AddRequest) -> list[CoreInbound]:
        key = _key(request)
        known = self._cache.get(key)
        if known is not None:
            return self._settle(request, known)
        self._held[request.request_id] = request
        if key in self._waiting:
            self._waiting[key].append(request.request_id)
        else:
            self._waiting[key] = [request.request_id]
            self._queues.setdefault(request.fairness_id, deque()).append(key)
        return []

    def _submit_next(self) -> None:
        """Keep the compiler's threads busy, one fairness id after the other."""
        while self._queues and self._num_running < NUM_THREADS:
            fairness_id, queue = self._queues.popitem(last=False)
            key = queue.popleft()
            if queue:
                self._queues[fairness_id] = queue
            if self._waiting[key]:
                self._num_running += 1
                self._jobs.submit(key)
            else:
                del self._waiting[key]

    def _finished(self, outcome: Outcome) -> list[CoreInbound]:
        if outcome.is_final:
            self._cache.put(outcome)
        messages: list[CoreInbound] = []
        for request_id in self._waiting.pop(outcome.key):
            messages += self._settle(self._held.pop(request_id), outcome)
        return messages

    def _settle(self, request: AddRequest, outcome: Outcome) -> list[CoreInbound]:
        """Let the request through with its grammar, or answer it."""
        spec = request.sampling.grammar
        assert spec is not None
        if outcome.error is None:
            bound = BoundGrammar(spec.kind, spec.text, spec.param, outcome.compiled)
            return [replace(request, sampling=replace(request.sampling, grammar=bound))]
        message = (
            f"Invalid grammar in '{spec.param}': {outcome.error}" if outcome.is_callers else outcome.error
        )
        self._end(
            request,
            TokenOutput(
                request_id=request.request_id,
                finish_reason="error",
                error_code=_error_code(outcome),
                error_message=message,
                error_param=spec.param if outcome.is_callers else None,
            ),
        )
        return []

    def _abort(self, request_ids: Iterable[str]) -> None:
        for request_id in list(request_ids):
            request = self._forget(request_id)
            self._end(request, TokenOutput(request_id=request_id, finish_reason="abort"))

    def _forget(self, request_id: str) -> AddRequest:
        request = self._held.pop(request_id)
        self._waiting[_key(request)].remove(request_id)
        return request

    def _end(self, request: AddRequest, output: TokenOutput) -> None:
        self._send(request.worker, StepOutputs(outputs=[output], load=self._load))


def _error_code(outcome: Outcome) -> str:
    if outcome.is_overload:
        return OVERLOADED
    return "invalid_grammar" if outcome.is_callers else "engine_error"


def _key(request: AddRequest) -> Key:
    spec = request.sampling.grammar
    assert spec is not None
    return spec.kind, spec.text
