"""Whose turn it is: a virtual token counter per fairness id, and the waiting requests of one class.

The next admission comes from the id that was served least, counted in weighted tokens (input tokens that
were not cached at admission, output tokens; recomputed ones are free). An id that comes back after it had
nothing waiting is lifted to the least of those that wait, so idling earns no credit. While some ids of a
class have requests waiting, what they were served differs by at most
2 · max(INPUT_WEIGHT · longest prompt, OUTPUT_WEIGHT · tokens that run at once), divided by their weights
(Sheng et al., Fairness in Serving Large Language Models). Policy only: knows no pages, rows or steps.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from engine.core.request import Request

INPUT_WEIGHT = 1.0
OUTPUT_WEIGHT = 2.0
"""An output token occupies a step's row for a whole step, a prompt token shares it with many."""

MIN_WEIGHT = 1e-3
MAX_IDLE_ACCOUNTS = 4096
"""Ids without a live request whose debt is remembered."""


@dataclass(slots=True, eq=False)
class Account:
    """What one fairness id was served in one class."""

    fairness_id: str
    served: float
    """Virtual tokens: weighted tokens divided by the id's weight."""
    waiting: OrderedDict[str, Request] = field(default_factory=OrderedDict)
    num_live: int = 0

    def charge_input(self, request: Request, num_tokens: int) -> None:
        self.served += INPUT_WEIGHT * num_tokens / max(request.fairness_weight, MIN_WEIGHT)

    def charge_output(self, request: Request, num_tokens: int) -> None:
        self.served += OUTPUT_WEIGHT * num_tokens / max(request.fairness_weight, MIN_WEIGHT)

    def head(self) -> Request:
        """First come, first served within an id."""
        return next(iter(self.waiting.values()))


class FairQueue:
    """The requests of one class that wait for their first admission."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._waiting: dict[str, Account] = {}
        """The accounts that have a request waiting."""
        self._last: Account | None = None
        """The id that had the last turn."""

    def push(self, request: Request) -> None:
        account = self._accounts.get(request.fairness_id)
        if account is None:
            account = self._accounts[request.fairness_id] = Account(request.fairness_id, 0.0)
        if not account.waiting:
            account.served = max(account.served, self._entry())
            self._waiting[account.fairness_id] = account
        assert request.id not in account.waiting
        account.waiting[request.id] = request
        account.num_live += 1
        request.account = account

    def head(self) -> Request | None:
        """The request to admit next."""
        if not self._waiting:
            return None
        account = min(self._waiting.values(), key=lambda each: (each.served, each.head().sequence))
        return account.head()

    def note_turn(self, request: Request) -> None:
        """It is about to be admitted."""
        self._last = request.account

    def remove(self, request: Request) -> None:
        """It waits no more."""
        account = request.account
        assert account is not None
        del account.waiting[request.id]
        if not account.waiting:
            del self._waiting[account.fairness_id]

    def retire(self, request: Request) -> None:
        """It is finished. The account of an id without live requests stays only while it owes."""
        account = request.account
        assert account is not None
        assert account.num_live > 0
        account.num_live -= 1
        if account.num_live == 0:
            assert not account.waiting
            if account.served <= self._entry():
                del self._accounts[account.fairness_id]
            elif len(self._accounts) > 2 * MAX_IDLE_ACCOUNTS:
                self._forget_small_debts()

    def check_integrity(self) -> None:
        for fairness_id, account in self._accounts.items():
            assert (fairness_id in self._waiting) == bool(account.waiting)
            assert account.num_live >= len(account.waiting)
        assert self._waiting.keys() <= self._accounts.keys()

    def _entry(self) -> float:
        """Where an id starts that had nothing waiting: beside the one that waits with the least, else
        beside the one that waited last. It never goes down, so what lies below it need not be kept."""
        nobody = 0.0 if self._last is None else self._last.served
        return min((account.served for account in self._waiting.values()), default=nobody)

    def _forget_small_debts(self) -> None:
        idle = [account for account in self._accounts.values() if not account.num_live]
        idle.sort(key=lambda account: account.served)
        for account in idle[: max(0, len(idle) - MAX_IDLE_ACCOUNTS)]:
            del self._accounts[account.fairness_id]
