"""Where requests with a grammar wait until it is compiled: outside the scheduler's line, in nobody's way.

Place in the path: the core's loop reads its inbox and emits through here; requests without a grammar pass untouched.
A grammar that is known already costs nothing; one that is refused ends its requests here, with their one terminal
output. Compilations take turns between fairness ids, so a caller with many does not keep the others waiting. This line
has an end too, and a time after which a request is refused; the time spent here counts in the scheduler's line. Runs on
the core's thread and never waits. Knows no tokens.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from engine.core.admission import OVERLOADED, overload
from engine.core.ports import Clock, Emit, Inbox
from engine.core.waiting import DrainMeter
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

_log = logging.getLogger(__name__)


class Jobs(Protocol):
    """The part of `compiler.Compiler` that is used here."""

    def submit(self, key: Key) -> None: ...

    def take(self) -> list[Outcome]: ...


@dataclass(frozen=True, slots=True)
class _Held:
    request: AddRequest
    since_s: float


class GrammarDesk:
    """`ports.Inbox` of the loop, and its `emit`."""

    def __init__(
        self,
        inbox: Inbox,
        emit: Emit,
        jobs: Jobs,
        cache: GrammarCache,
        clock: Clock,
        *,
        max_held: int,
        patience_s: float,
    ) -> None:
        """`max_held`: requests that may wait here, each for `patience_s`."""
        self._clock = clock
        self._max_held = max_held
        self._patience_s = patience_s
        self._inbox = inbox
        self._send = emit
        self._jobs = jobs
        self._cache = cache
        self._load = LoadStats()
        self._held: dict[str, _Held] = {}
        """Requests whose grammar is not compiled yet, in the order of arrival."""
        self._num_held: Counter[str] = Counter()
        """By fairness id."""
        self._drain = DrainMeter()
        self._num_refused = 0
        self._waiting: dict[Key, list[str]] = {}
        """Grammar → held requests that need it."""
        self._queues: OrderedDict[str, deque[Key]] = OrderedDict()
        """Fairness id → grammars not submitted yet; the first id is next."""
        self._num_running = 0

    def drain(self, timeout_s: float) -> list[CoreInbound]:
        """See `ports.Inbox`. Requests whose grammar is ready come first, then what arrived."""
        arrived = self._inbox.drain(timeout_s)
        messages: list[CoreInbound] = []
        num_held = len(self._held)
        for outcome in self._jobs.take():
            self._num_running -= 1
            messages += self._finished(outcome)
        num_done = num_held - len(self._held)
        for message in arrived:
            messages += self._sort(message)
        self._drain.observe(self._clock(), num_done, num_done, has_line=bool(self._held))
        self._expire()
        self._submit_next()
        return messages

    def emit(self, worker: int, step: StepOutputs) -> None:
        """Who waits here waits, for whoever looks at the figures."""
        load = step.load
        if self._held or self._num_refused:
            load = replace(
                load,
                num_waiting=load.num_waiting + len(self._held),
                num_refused=load.num_refused + self._num_refused,
            )
            step = replace(step, load=load)
        self._load = load
        self._send(worker, step)

    def _sort(self, message: CoreInbound) -> list[CoreInbound]:
        match message:
            case AddRequest() if message.request_id in self._held:
                # Answering would end the held request of that name for its caller; the loop does the same.
                _log.error("request %s is held already; the second one is dropped", message.request_id)
                return []
            case AddRequest() if message.sampling.grammar is not None:
                return self._add(message)
            case AbortRequest():
                self._abort(index for index in message.request_ids if index in self._held)
            case WorkerGone():
                gone = [id for id, held in self._held.items() if held.request.worker == message.worker]
                for request_id in gone:
                    self._forget(request_id)
            case Shutdown():
                self._abort(list(self._held))
        return [message]

    def _add(self, request: AddRequest) -> list[CoreInbound]:
        key = _key(request)
        known = self._cache.get(key)
        if known is not None:
            return self._settle(request, known)
        if len(self._held) >= self._max_held and not self._make_place(request):
            return []
        self._held[request.request_id] = _Held(request, self._clock())
        self._num_held[request.fairness_id] += 1
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
        now = self._clock()
        for request_id in self._waiting.pop(outcome.key):
            held = self._let_go(request_id)
            messages += self._settle(replace(held.request, held_s=now - held.since_s), outcome)
        return messages

    def _make_place(self, request: AddRequest) -> bool:
        """The id that fills this line gives up the place of its last request; if it is the newcomer's own, it is the
        newcomer that is refused."""
        longest, count = self._num_held.most_common(1)[0]
        if self._num_held[request.fairness_id] >= count:
            self._refuse(request, "too many grammars wait to be compiled")
            return False
        last = next(id for id in reversed(self._held) if self._held[id].request.fairness_id == longest)
        self._refuse(self._forget(last), "too many grammars wait to be compiled")
        return True

    def _expire(self) -> None:
        """Those that wait for too long. Their grammars may be compiled yet, for others."""
        latest = self._clock() - self._patience_s
        while self._held:
            request_id, held = next(iter(self._held.items()))
            if held.since_s > latest:
                break
            self._refuse(self._forget(request_id), "the grammar waited too long to be compiled")

    def _refuse(self, request: AddRequest, reason: str) -> None:
        self._num_refused += 1
        num_held = len(self._held)
        refused = overload(reason, self._drain.retry_after_s(num_held, num_held))
        self._end(request, refused.as_output(request.request_id))

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
        request = self._let_go(request_id).request
        self._waiting[_key(request)].remove(request_id)
        return request

    def _let_go(self, request_id: str) -> _Held:
        held = self._held.pop(request_id)
        fairness_id = held.request.fairness_id
        self._num_held[fairness_id] -= 1
        if not self._num_held[fairness_id]:
            del self._num_held[fairness_id]
        return held

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
