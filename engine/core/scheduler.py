"""Who computes how many tokens in the next step: one budget, no prefill and no decode phase.

`loop` calls `schedule` before every launch and `retire` after every collected step; `output` calls `finish`.
Rows with one pending token come first, then unfinished prompts, then admissions from the waiting line.
Choices are made in `policy`, `waiting`, `fairness`, `turns`, `pace` and `floor`, pages are kept by `kv`; this file
carries them out. Knows no time but what it is told, no runner and no text.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from engine.core import pace, policy, recovery, yielding
from engine.core.config import CoreConfig
from engine.core.contract import RowInit
from engine.core.demand import Demand
from engine.core.floor import Floor
from engine.core.kv import KVManager
from engine.core.request import Phase, Request
from engine.core.rows import Rows
from engine.core.shares import Holdings
from engine.core.step import Step, StepPlan
from engine.core.steptime import StepTimes
from engine.core.turns import Turns, note_read
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
        self.rows = Rows(config.max_num_seqs)
        self.holdings = Holdings()
        self.times = StepTimes()
        self.demand = Demand()
        self.num_preemptions = 0
        self.num_refused = 0
        self.num_unread_tokens = 0
        """Prompt tokens of running requests that the last step left over."""
        self.prefix_queries = 0
        self.prefix_hits = 0
        self.num_steps = 0
        self._config = config
        self._floor = Floor()
        self._turns = Turns()
        self._num_lower = 0
        """Live requests of the lower class."""
        self._num_promised = 0
        """Live requests with a promised time between tokens."""
        self._leaving: dict[Request, None] = {}
        """Lost their row while a launched step still touches their pages."""

    @property
    def num_running(self) -> int:
        return self.rows.num_running

    @property
    def num_free_rows(self) -> int:
        return self.rows.num_free

    def running(self) -> list[Request]:
        return self.rows.running()

    def add(self, request: Request) -> None:
        """Line up a request that `admission` let in."""
        assert request.id not in self.live
        self.live[request.id] = request
        self._count_live(request, 1)
        self.holdings.open(request)
        self.waiting.add(request)

    def schedule(self, now: float) -> Step | None:
        """The next step, or None when there is nothing to launch before an earlier one is collected."""
        plan = StepPlan(self._config.max_num_batched_tokens, pace.Allowance(self.times))
        if self._num_lower:
            self._floor.pass_time(now)
            self._make_way()
        if self.holdings.num_capped and self.holdings.any_beyond(self._config.layout.num_blocks):
            for victim in yielding.to_own_share(self.running(), self.kv, self._leaving):
                self._preempt(victim)
        self._turns.first_rank = int(self._floor.is_owed)
        self._continue_running(plan)
        self._admit(plan, now)
        if plan.unserved and plan.budget > 0:
            self._top_up(plan)
        self.waiting.observe(now, plan.admitted)
        if not plan.work:
            return None
        if self._num_lower:
            self._floor.scheduled(
                plan.part_of_lower_class(),
                is_waiting=yielding.lower_class_waits(self.rows, self.waiting, plan),
            )
        self.num_steps += 1
        return Step.from_plan(self.num_steps, plan, self.rows.take_freed(), self.kv.host.take_moves())

    def finish(self, request: Request) -> None:
        """The request has its terminal output. Its row is free at once, its pages when no launched step
        touches them."""
        assert request.phase is not Phase.FINISHED, "one terminal output each"
        del self.live[request.id]
        self._count_live(request, -1)
        if request.phase is Phase.RUNNING:
            self._leave_row(request)
        else:
            self.waiting.remove(request)
            self.kv.drop_kept(request)
        request.phase = Phase.FINISHED
        self.demand.finished(request)
        self.waiting.retire(request)
        self.holdings.close(request)

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
                self._release(request)

    def spoil(self, failed: Wants, steps: Sequence[Step], *, whole: bool = False) -> None:
        """What `failed` computed from the given positions on is worthless. Nobody may find it, and who
        shares it already starts over, without the results of `steps`, the ones from the failed step on.
        `whole`: all of the first step failed, also what it was to copy."""
        lost = set[int]()
        if whole:
            waiting = [request for request in self.live.values() if request.phase is Phase.WAITING]
            lost = self.kv.spoil_moves([step.schedule for step in steps], waiting)

        def start_over(request: Request) -> None:
            if request.phase is Phase.RUNNING:
                self._preempt(request, keeps=False)
            request.num_tokens, request.num_kept = len(request.token_ids), 0
            for step in steps:
                step.ignore(request)

        recovery.spoil(failed, [*self.running(), *self._leaving], self.kv, start_over, lost)

    def check_integrity(self) -> None:
        """Every live request is in a row or in line, every page is accounted for. Raises AssertionError."""
        running = self.running()
        holders = [*running, *self._leaving]
        self.rows.check_integrity()
        self.holdings.check_integrity(self.live.values(), holders)
        assert self._num_lower == sum(request.class_rank > 0 for request in self.live.values())
        assert self._num_promised == sum(request.tpot_s is not None for request in self.live.values())
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
        self.kv.check_integrity(holders, waiting)

    # Requests that have a row

    def _continue_running(self, plan: StepPlan) -> None:
        wants: Wants = []
        prompts = []
        for request in self.rows.seats:
            if request is None:
                continue
            if request.num_tokens - request.num_computed > 1:
                prompts.append(request)
            elif request.num_tokens < request.max_total_tokens:
                wants.append((request, request.num_computed + 1))
        self.num_unread_tokens = sum(request.num_pending for request in prompts)
        backlog = self.num_unread_tokens + self.waiting.num_tokens
        plan.budget = policy.step_budget(len(wants), backlog, self._config)
        if self._num_promised:
            wants = pace.cap(plan, wants, self.times, self._config, step=self.num_steps)
        if prompts:
            self._share_rest(plan, wants, prompts)
        short = [want for want in wants if want[1] > want[0].capacity]
        if short and self.kv.num_missing_together(short) > self.kv.pool.num_free:
            wants = self._make_room(wants)
        for request, end in wants:
            if end > request.capacity:
                plan.appends += self.kv.grow(request, end)
            self._hand_out(plan, request, end)

    def _share_rest(self, plan: StepPlan, wants: Wants, prompts: list[Request]) -> None:
        """Prompts get what the answers leave of the budget, less what those in line need before them."""
        heads = self.waiting.heads(policy.MOST_PASSED_OVER) if self.rows.num_free else []
        budget, kept = plan.budget - len(wants), 0
        prompts = self._turns.order(prompts, heads)
        for request in prompts:
            if kept == 0 and heads:
                kept = self._turns.room_for(heads, request, plan.prompts.room(0, budget))
                budget -= kept
                if kept:
                    plan.prompts.take(0, kept)
            num_tokens = plan.prompts.room(request.num_computed, min(budget, request.num_pending))
            if num_tokens > 0:
                wants.append((request, request.num_computed + num_tokens))
                budget -= num_tokens
                plan.prompts.take(request.num_computed, num_tokens)
        if kept:
            plan.prompts.give_back(0, kept)
            plan.unserved = prompts

    def _top_up(self, plan: StepPlan) -> None:
        """Room was kept for requests in line that did not take it all."""
        for request in plan.unserved:
            if request.phase is not Phase.RUNNING:
                continue  # it lost its row since, for want of pages
            if request.num_unseen_tokens or request.num_pending <= 0 or plan.budget == 0:
                continue
            begun, computed = plan.take_back(request), request.num_computed
            start = computed if begun is None else begun.start
            note_read(request, computed, start, self.times.key_cost)
            room = plan.prompts.room(start, min(plan.budget, request.num_tokens - start))
            end = max(computed, start + room)
            if end > request.capacity and self.kv.num_missing(request, end) > self.kv.pool.num_free:
                end = computed
            if end > request.capacity:
                plan.appends += self.kv.grow(request, end)
            request.num_computed = start
            request.num_steps_in_flight -= begun is not None
            if end > start:
                plan.prompts.take(start, end - start)
                self._hand_out(plan, request, end)

    def _make_room(self, wants: Wants) -> Wants:
        """Preempt until the pages suffice. Some of them may only come when a step in flight is collected;
        the requests that lack those sit this step out."""
        done = [request for request in self.running() if request.num_pending == 0]
        while True:
            coming = self.kv.num_exclusive([*self._leaving, *done])
            if self.kv.num_missing_together(wants) <= self.kv.pool.num_free + coming:
                break
            victim = policy.choose_victim(request for request in self.running() if request.num_pending > 0)
            self._preempt(victim)
            wants = [want for want in wants if want[0] is not victim]
        return policy.affordable(wants, self.kv.num_missing, self.kv.pool.num_free)

    def _hand_out(self, plan: StepPlan, request: Request, end: int) -> None:
        """Compute the request up to `end`; at its last known token that samples the next one."""
        start, samples = request.num_computed, end == request.num_tokens
        num_tokens = end - start
        plan.add(request, start, num_tokens, samples)
        if num_tokens > 1:
            note_read(request, start, end, self.times.key_cost)
        request.num_computed = end
        if samples:
            request.num_tokens = end + 1
        request.num_steps_in_flight += 1
        if end >= request.publish_at <= len(request.token_ids):
            self.kv.publish(request)

    # Into a row and out of it

    def _admit(self, plan: StepPlan, now: float) -> None:
        """In the line's order, while the whole of the next one fits."""
        while plan.prompts.room(0, plan.budget) > 0 and self.rows.num_free and self.waiting.num_requests:
            if not self._admit_next(plan, now):
                break

    def _admit_next(self, plan: StepPlan, now: float) -> bool:
        """One more request gets a row. Who does not fit is passed over for a while; then nobody else is let in
        who does not hold less of the pool than its id does already."""
        awaited: Request | None = None
        candidates = self.waiting.candidates(self._turns.first_rank)
        for request in islice(candidates, policy.MOST_PASSED_OVER):
            if request.num_steps_in_flight > 0:
                return False
            if request.class_rank > self._turns.first_rank and plan.is_tight:
                return False
            if awaited is not None and not yielding.may_pass(request, awaited, self.kv):
                continue
            if self._try_admit(plan, request, now):
                return True
            if request.holding is not None and request.holding.is_full:
                continue
            if request.blocked_s is None:
                request.blocked_s = now
            is_due = now - request.blocked_s >= policy.PASSED_OVER_S
            if awaited is None and is_due and yielding.may_hold_room(request, self.kv):
                awaited = request
        return False

    def _try_admit(self, plan: StepPlan, request: Request, now: float) -> bool:
        num_free = self.kv.pool.num_free - policy.headroom_pages(self.num_running, self.kv.num_groups)
        if request.pages_wanted > num_free:
            return False
        assert request.num_tokens == len(request.token_ids), "a row starts with all its tokens"
        hit = self.kv.match(request)
        request.pages_wanted = self.kv.num_free_wanted(request, hit)
        if request.pages_wanted > num_free:
            return False
        if self.kv.exceeds_share(request, hit):
            assert request.holding is not None
            request.pages_wanted, request.holding.is_full = 0, True
            return False
        request.pages_wanted, request.blocked_s = 0, None
        self.waiting.take(request)
        if not request.was_admitted:
            self._count_first_admission(request, hit.num_tokens, now)
        self._enter_row(plan, request)
        self.kv.admit(request, hit)
        num_tokens = min(plan.budget, request.num_tokens - hit.num_tokens)
        end = hit.num_tokens + max(1, plan.prompts.room(hit.num_tokens, num_tokens))
        plan.prompts.take(hit.num_tokens, end - hit.num_tokens)
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
        request.phase = Phase.RUNNING
        self.rows.enter(request)
        plan.admitted.append(request)

    def _leave_row(self, request: Request) -> None:
        self.rows.leave(request)
        if request.num_steps_in_flight > 0:
            self._leaving[request] = None
        else:
            self._release(request)

    def _release(self, request: Request) -> None:
        """No launched step touches its pages any more."""
        if request.phase is Phase.WAITING:
            self.kv.swap_out(request)
        self.kv.release(request)

    def _preempt(self, request: Request, *, keeps: bool = True) -> None:
        """Compute it again later, or bring its pages back: its full pages stay in the prefix cache as long as
        nobody needs them. A token that is in flight still arrives and counts."""
        request.phase = Phase.WAITING
        request.num_kept, request.num_computed = request.num_computed if keeps else 0, 0
        self._leave_row(request)
        self.waiting.put_back(request)
        request.num_preempted += 1
        self.num_preemptions += 1

    # Between classes and ids

    def _make_way(self) -> None:
        """The lower class gives up rows and pages for the upper one, all but its share if it has not had that yet."""
        if self.rows.num_of_class[1] and self.waiting.num_of_class(0):
            yields = yielding.to_upper_class(
                self.rows, self.waiting, self.kv, self._leaving, has_enough=self._floor.has_enough
            )
            for request, victims in yields:
                request.blocked_s = float("-inf")
                for victim in victims:
                    self._preempt(victim)

    def _count_live(self, request: Request, change: int) -> None:
        self._num_promised += change if request.tpot_s is not None else 0
        self._num_lower += change if request.class_rank else 0
        if self._num_lower == 0 and request.class_rank:
            self._floor = Floor()
