"""Who computes how many tokens in the next step: one budget, no prefill and no decode phase.

`loop` calls `schedule` before every launch and `retire` after every collected step; `output` calls `finish`.
Rows with one pending token come first, then unfinished prompts, then admissions from the waiting line.
Choices are made in `policy`, `waiting` and `fairness`, pages are kept by `kv`; this file carries them out.
Knows no time but what it is told, no runner and no text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from engine.core import policy
from engine.core.config import CoreConfig
from engine.core.contract import RowInit
from engine.core.kv import KVManager
from engine.core.request import Phase, Request
from engine.core.step import Step, StepPlan
from engine.core.waiting import WaitingLine

Wants = list[tuple[Request, int]]
"""(request, position up to which the next step should compute it)."""


class Scheduler:
    """Owns the live requests, the rows and, through `kv`, the pages."""

    def __init__(self, config: CoreConfig) -> None:
        self.live: dict[str, Request] = {}
        """Requests without a terminal output."""
        self.kv = KVManager(config)
        self.waiting = WaitingLine(config)
        self.num_preemptions = 0
        self.prefix_queries = 0
        self.prefix_hits = 0
        self.num_steps = 0
        self._config = config
        self._rows: list[Request | None] = [None] * config.max_num_seqs
        self._free_rows = list(range(config.max_num_seqs))
        self._freed_rows: list[int] = []
        """Given up since the last schedule, which must name them."""
        self._leaving: dict[Request, None] = {}
        """Lost their row while a launched step still touches their pages."""

    @property
    def num_running(self) -> int:
        return len(self._rows) - len(self._free_rows)

    @property
    def num_free_rows(self) -> int:
        return len(self._free_rows)

    def running(self) -> list[Request]:
        return [request for request in self._rows if request is not None]

    def add(self, request: Request) -> None:
        """Line up a request that `admission` let in."""
        assert request.id not in self.live
        self.live[request.id] = request
        self.waiting.add(request)

    def schedule(self, now: float) -> Step | None:
        """The next step, or None when there is nothing to launch before an earlier one is collected."""
        plan = StepPlan(self._config.max_num_batched_tokens)
        self._continue_running(plan)
        self._admit(plan, now)
        self.waiting.observe(now, plan.admitted)
        if not plan.work:
            return None
        freed_rows, self._freed_rows = self._freed_rows, []
        self.num_steps += 1
        return Step.from_plan(self.num_steps, plan, freed_rows)

    def finish(self, request: Request) -> None:
        """The request has its terminal output. Its row is free at once, its pages when no launched step
        touches them."""
        assert request.phase is not Phase.FINISHED, "one terminal output each"
        del self.live[request.id]
        if request.phase is Phase.RUNNING:
            self._leave_row(request)
        else:
            self.waiting.remove(request)
        request.phase = Phase.FINISHED
        self.waiting.retire(request)

    def retire(self, step: Step) -> None:
        """The step is collected and its tokens are accepted: free what only it could touch."""
        for work, request in zip(step.schedule.work, step.requests, strict=True):
            request.num_steps_in_flight -= 1
            if request.phase is Phase.RUNNING:
                position = work.start + work.num_tokens
                if position >= request.release_at:
                    self.kv.release_behind(request, position)
            elif request.num_steps_in_flight == 0:
                del self._leaving[request]
                self.kv.release(request)

    def spoil(self, failed: Wants, steps: Sequence[Step]) -> None:
        """What `failed` computed from the given positions on is worthless. Nobody may find it, and who
        shares it already starts over, without the results of `steps`, the ones from the failed step on."""
        spoiled: set[int] = set()
        for request, position in failed:
            spoiled |= self.kv.spoil(request, position)
        untouched = dict.fromkeys([*self.running(), *self._leaving])
        for request, _ in failed:
            untouched.pop(request, None)
        affected = self._next_affected(untouched, spoiled)
        while affected is not None:
            request, position = affected
            del untouched[request]
            spoiled |= self.kv.spoil(request, position)
            self._start_over(request, steps)
            affected = self._next_affected(untouched, spoiled)

    def check_integrity(self) -> None:
        """Every live request is in a row or in line, every page is accounted for. Raises AssertionError."""
        running = self.running()
        assert all(self._rows[request.row] is request for request in running)
        assert sorted([*self._free_rows, *(request.row for request in running)]) == list(
            range(len(self._rows))
        )
        assert all(request.phase is Phase.RUNNING for request in running)
        waiting = [request for request in self.live.values() if request.phase is Phase.WAITING]
        assert len(running) + len(waiting) == len(self.live), "a live request is nowhere"
        self.waiting.check_integrity(waiting)
        for request in running:
            assert request.num_computed < request.num_tokens <= request.max_total_tokens
            assert request.num_computed <= request.capacity
        for request in self._leaving:
            assert request.phase is not Phase.RUNNING
            assert request.num_steps_in_flight > 0
        self.kv.check_integrity([*running, *self._leaving])

    # Requests that have a row

    def _continue_running(self, plan: StepPlan) -> None:
        wants: Wants = []
        prompts = []
        for request in self._rows:
            if request is None:
                continue
            if request.num_tokens - request.num_computed > 1:
                prompts.append(request)
            elif request.num_tokens < request.max_total_tokens:
                wants.append((request, request.num_computed + 1))
        backlog = sum(request.num_pending for request in prompts) + self.waiting.num_tokens
        plan.budget = policy.step_budget(len(wants), backlog, self._config)
        budget = plan.budget - len(wants)
        for request in policy.prompt_order(prompts):
            num_tokens = min(budget, request.num_pending)
            if num_tokens > 0:
                wants.append((request, request.num_computed + num_tokens))
                budget -= num_tokens
        short = [want for want in wants if want[1] > want[0].capacity]
        if short and self._num_missing(short) > self.kv.pool.num_free:
            wants = self._make_room(wants)
        for request, end in wants:
            if end > request.capacity:
                plan.appends += self.kv.grow(request, end)
            self._hand_out(plan, request, end)

    def _make_room(self, wants: Wants) -> Wants:
        """Preempt until the pages suffice. Some of them may only come when a step in flight is collected;
        the requests that lack those sit this step out."""
        done = [request for request in self.running() if request.num_pending == 0]
        while True:
            coming = self.kv.num_exclusive([*self._leaving, *done])
            if self._num_missing(wants) <= self.kv.pool.num_free + coming:
                break
            victim = policy.choose_victim(request for request in self.running() if request.num_pending > 0)
            self._preempt(victim)
            wants = [want for want in wants if want[0] is not victim]
        ready, num_free = [], self.kv.pool.num_free
        for want in sorted(wants, key=lambda want: policy.seniority(want[0])):
            num_missing = self._num_missing([want])
            if num_missing <= num_free:
                num_free -= num_missing
                ready.append(want)
        return ready

    def _num_missing(self, wants: Wants) -> int:
        return sum(self.kv.num_missing(request, end) for request, end in wants)

    def _hand_out(self, plan: StepPlan, request: Request, end: int) -> None:
        """Compute the request up to `end`; at its last known token that samples the next one."""
        start, samples = request.num_computed, end == request.num_tokens
        plan.add(request, start, end - start, samples)
        request.num_computed = end
        if samples:
            request.num_tokens = end + 1
        request.num_steps_in_flight += 1
        if end >= request.publish_at and len(request.token_ids) >= request.publish_at:
            self.kv.publish(request)

    # Into a row and out of it

    def _admit(self, plan: StepPlan, now: float) -> None:
        """In the line's order, while the whole of the next one fits."""
        while plan.budget > 0 and self._free_rows:
            request = self.waiting.head()
            if request is None or request.num_steps_in_flight > 0 or not self._try_admit(plan, request, now):
                break

    def _try_admit(self, plan: StepPlan, request: Request, now: float) -> bool:
        num_free = self.kv.pool.num_free - policy.headroom_pages(self.num_running, self.kv.num_groups)
        if request.pages_wanted > num_free:
            return False
        assert request.num_tokens == len(request.token_ids), "a row starts with all its tokens"
        hit = self.kv.match(request)
        request.pages_wanted = self.kv.num_free_wanted(request, hit)
        if request.pages_wanted > num_free:
            return False
        request.pages_wanted = 0
        self.waiting.take(request)
        if not request.was_admitted:
            self._count_first_admission(request, hit.num_tokens, now)
        self._enter_row(plan, request)
        self.kv.admit(request, hit)
        end = min(hit.num_tokens + plan.budget, request.num_tokens)
        self.kv.grow(request, end, whole=request.num_tokens)
        plan.new_rows.append(
            RowInit(
                row=request.row,
                token_ids=tuple(request.token_ids),
                num_prompt_tokens=request.num_prompt_tokens,
                sampling=request.sampling,
                block_ids=tuple(map(tuple, request.tables)),
            )
        )
        self._hand_out(plan, request, end)
        return True

    def _count_first_admission(self, request: Request, num_cached_tokens: int, now: float) -> None:
        request.num_cached_tokens = num_cached_tokens
        request.queue_ms = (now - request.arrival_s) * 1e3
        self.prefix_queries += len(request.token_ids)
        self.prefix_hits += num_cached_tokens
        assert request.account is not None
        # An answer that was begun elsewhere is computed again for free.
        request.account.charge_input(request, max(0, request.num_prompt_tokens - num_cached_tokens))

    def _enter_row(self, plan: StepPlan, request: Request) -> None:
        assert request.phase is Phase.WAITING
        request.row = heappop(self._free_rows)
        request.phase = Phase.RUNNING
        self._rows[request.row] = request
        plan.admitted.append(request)

    def _leave_row(self, request: Request) -> None:
        assert self._rows[request.row] is request
        self._rows[request.row] = None
        heappush(self._free_rows, request.row)
        self._freed_rows.append(request.row)
        if request.num_steps_in_flight > 0:
            self._leaving[request] = None
        else:
            self.kv.release(request)

    def _preempt(self, request: Request) -> None:
        """Recompute later: its full pages stay in the prefix cache as long as nobody needs them. A token
        that is in flight still arrives and counts."""
        self._leave_row(request)
        request.phase = Phase.WAITING
        request.num_computed = 0
        self.waiting.put_back(request)
        self.num_preemptions += 1

    # After a failure

    def _next_affected(self, holders: Iterable[Request], spoiled: set[int]) -> tuple[Request, int] | None:
        for request in holders:
            position = self.kv.first_of(request, spoiled)
            if position is not None:
                return request, position
        return None

    def _start_over(self, request: Request, steps: Sequence[Step]) -> None:
        if request.phase is Phase.RUNNING:
            self._preempt(request)
        request.num_tokens = len(request.token_ids)
        for step in steps:
            step.ignore(request)
