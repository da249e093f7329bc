"""Whose turn it is: a virtual token counter per fairness id, and the waiting requests of one class.

The next admission comes from the id that was served least, counted in weighted tokens (input tokens that
were not cached at admission, output tokens; recomputed ones are free). An id that comes back after it had
nothing waiting is lifted to the least of those that wait, so idling earns no credit. While some ids of a
class have requests waiting, and none is held back by its page share, what they were served differs by at most
2 · max(INPUT_WEIGHT · longest prompt, OUTPUT_WEIGHT · tokens that run at once), divided by their weights
(Sheng et al., Fairness in Serving Large Language Models). Within an id the caller's own priorities go first, then
the earliest deadline; but now and then whoever waits longest, so that a stream of others cannot keep it out.
Policy only: knows no pages, rows or steps.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from engine.core.request import Request

INPUT_WEIGHT = 1.0
OUTPUT_WEIGHT = 2.0
"""An output token occupies a step's row for a whole step, a prompt token shares it with many."""

OLDEST_EVERY = 10
"""Of an id's turns, one in so many goes to the request that came first: as much as the classes leave each other."""

FIRST = -(1 << 63)
"""Before every priority that a caller can give."""

MIN_WEIGHT = 1e-3
MAX_IDLE_ACCOUNTS = 4096
"""Ids without a live request whose debt is remembered."""


@dataclass(slots=True, eq=False)
class Account:
    """What one fairness id was served in one class."""

    fairness_id: str
    served: float
    """Virtual tokens: weighted tokens divided by the id's weight."""
    weight: float = 1.0
    waiting: list[Request] = field(default_factory=list)
    """In the order of their priorities, then of their deadlines, then of arrival."""
    num_live: int = 0
    num_waiting_tokens: int = 0
    num_turns: int = 0
    """First admissions."""
    num_read: float = 0.0
    """Prompt tokens computed, by what they cost, divided by the id's weight (`turns`)."""
    read_at: int = -1
    """The last round of turns in which the id took part."""

    def charge_input(self, request: Request, num_tokens: int) -> None:
        self.served += input_cost(request, num_tokens)

    def head(self) -> Request:
        """By the caller's own priorities, then the earliest deadline; without either first come, first served."""
        return self.waiting[0]

    def note_turn(self) -> None:
        """One of its requests was admitted. If the next turn is the oldest's, that one goes to the head."""
        self.num_turns += 1
        if self.num_turns % OLDEST_EVERY == OLDEST_EVERY - 1 and self.waiting:
            oldest = min(self.waiting, key=lambda request: request.arrival)
            withdraw(self.waiting, oldest, _urgency)
            oldest.priority = FIRST
            insort(self.waiting, oldest, key=_urgency)

    @property
    def is_held_back(self) -> bool:
        """Its next request would take more pages than the id may hold."""
        holding = self.waiting[0].holding
        return holding is not None and holding.is_full


def input_cost(request: Request, num_tokens: int) -> float:
    return INPUT_WEIGHT * num_tokens / max(request.fairness_weight, MIN_WEIGHT)


class FairQueue:
    """The requests of one class that wait for their first admission."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._waiting: dict[str, Account] = {}
        """The accounts that have a request waiting."""
        self._last: Account | None = None
        """The id that had the last turn."""
        self._num_live = 0
        self._num_idled = 0
        """How often an id became idle since the settled debts were last forgotten."""

    @property
    def accounts_waiting(self) -> dict[str, Account]:
        return self._waiting

    @property
    def num_accounts(self) -> int:
        """Ids that are remembered: those with live requests, and those that owe."""
        return len(self._accounts)

    def push(self, request: Request) -> None:
        account = self._accounts.get(request.fairness_id)
        if account is None:
            account = self._accounts[request.fairness_id] = Account(request.fairness_id, 0.0)
        if not account.waiting:
            account.served = max(account.served, self._entry())
            self._waiting[account.fairness_id] = account
        account.weight = request.fairness_weight
        insort(account.waiting, request, key=_urgency)
        account.num_waiting_tokens += request.num_prompt_tokens
        account.num_live += 1
        self._num_live += 1
        request.account = account
        request.output_cost = OUTPUT_WEIGHT / max(request.fairness_weight, MIN_WEIGHT)

    def candidates(self) -> Iterator[Request]:
        """The next request, then those that may go before it while it does not fit: the rest of its id, then other
        ids as far as that leaves the services within the bound. Asked for another, it takes the last one for one
        that does not fit; the queue must not change in between."""
        first = self._first()
        if first is None:
            return
        most = float("inf")
        for account in (first, *self._others(first)):
            if account.served > most:
                return
            for request in account.waiting:
                if account.is_held_back:
                    break
                yield request
                most = min(most, account.served + input_cost(request, request.num_prompt_tokens))

    def note_turn(self, request: Request) -> None:
        """It was removed to be admitted."""
        assert request.account is not None
        self._last = request.account
        request.account.note_turn()

    def remove(self, request: Request) -> None:
        """It waits no more."""
        account = request.account
        assert account is not None
        withdraw(account.waiting, request, _urgency)
        account.num_waiting_tokens -= request.num_prompt_tokens
        if not account.waiting:
            del self._waiting[account.fairness_id]

    def retire(self, request: Request) -> None:
        """It is finished. The account of an id without live requests stays only while it owes, and nobody owes
        anything to a class without a live request."""
        account = request.account
        assert account is not None
        assert account.num_live > 0
        account.num_live -= 1
        self._num_live -= 1
        if self._num_live == 0:
            assert not self._waiting
            self._accounts.clear()
            self._last = None
        elif account.num_live == 0:
            assert not account.waiting
            self._num_idled += 1
            if self._num_idled > len(self._accounts) // 2:
                self._forget_settled_debts()

    def spread(self) -> float:
        """Virtual tokens between the ids that wait with the most and the least service."""
        if len(self._waiting) < 2:
            return 0.0
        served = [account.served for account in self._waiting.values()]
        return max(served) - min(served)

    def check_integrity(self) -> None:
        for fairness_id, account in self._accounts.items():
            assert (fairness_id in self._waiting) == bool(account.waiting)
            assert account.num_live >= len(account.waiting)
            assert account.waiting == sorted(account.waiting, key=_urgency)
            assert account.num_waiting_tokens == sum(each.num_prompt_tokens for each in account.waiting)
        assert self._waiting.keys() <= self._accounts.keys()
        assert self._num_live == sum(account.num_live for account in self._accounts.values())
        assert self._num_live or not self._accounts

    def _first(self) -> Account | None:
        waiting = [account for account in self._waiting.values() if not account.is_held_back]
        return min(waiting, key=_turn, default=None) if len(waiting) != 1 else waiting[0]

    def _others(self, first: Account) -> Iterator[Account]:
        """Lazily: most of the time the first one is enough."""
        yield from sorted((each for each in self._waiting.values() if each is not first), key=_turn)

    def _entry(self) -> float:
        """Where an id starts that had nothing waiting: beside the one that waits with the least, else
        beside the one that waited last. It never goes down, so what lies below it need not be kept."""
        nobody = 0.0 if self._last is None else self._last.served
        return min((account.served for account in self._waiting.values()), default=nobody)

    def _forget_settled_debts(self) -> None:
        """Those below the entry, and of what is left the smallest. Once per so many ids that became idle, each of
        them pays for two looks."""
        self._num_idled = 0
        entry = self._entry()
        idle = [account for account in self._accounts.values() if not account.num_live]
        idle.sort(key=lambda account: account.served, reverse=True)
        for place, account in enumerate(idle):
            if account.served <= entry or place >= MAX_IDLE_ACCOUNTS:
                del self._accounts[account.fairness_id]


def part_of_line(
    account: Account, max_requests: int, max_tokens: int, *, more: int = 0, more_tokens: int = 0
) -> float:
    """The part of a line's bounds that an id takes, by its weight; with `more` requests than now."""
    requests, tokens = len(account.waiting) + more, account.num_waiting_tokens + more_tokens
    return max(requests / max_requests, tokens / max_tokens) / max(account.weight, MIN_WEIGHT)


def withdraw(line: list[Request], request: Request, key: Callable[[Request], Any]) -> None:
    """Out of a line in the order of `key`, which no two requests share."""
    index = bisect_left(line, key(request), key=key)
    assert line[index] is request
    del line[index]


def _urgency(request: Request) -> tuple[int, float, tuple[float, int]]:
    return request.priority, request.deadline_s, request.arrival


def _turn(account: Account) -> tuple[float, tuple[float, int]]:
    return account.served, account.waiting[0].arrival
