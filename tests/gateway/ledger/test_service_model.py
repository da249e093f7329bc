"""The whole ledger service against a reference model, through crashes, restarts and outages of the database.

Hypothesis draws interleavings of reserve, settle, release, expiry, evidence, duplicates, outages and kills; after
every step open + settled + released = reserved, and held and spent of each budget are the model's. A killed run is
followed by another under the same gateway id, which finds its spool and its file of unrecorded requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from gateway.clock import SystemClock
from gateway.db import Database
from gateway.ids import GatewayId, IdSource, ReplicaId
from gateway.ledger.batcher import commit_batch
from gateway.ledger.errors import BudgetExceeded, LedgerUnavailable
from gateway.ledger.repository.holds import FIRST_HOLD, orphaned_holds
from gateway.ledger.service import Ledger
from gateway.ledger.settling import Operation, SettleBatch
from gateway.ledger.types import Hold, Settlement
from gateway.obs.metrics import Metrics
from gateway.reconcile.evidence import JournalAttempt, settlement_from_journal, settlement_without_evidence
from gateway.settings import LedgerSettings
from tests.fakes.tcp_proxy import TcpProxy
from tests.gateway.books import Books, patient
from tests.gateway.ledger.builders import PRICES, reservation, settlement
from tests.instants import just_now

T = TypeVar("T")
NOW = just_now()
TENANTS = ("hard", "soft", "free")
FINISH_S = 90.0
PICK, TOKENS = st.integers(0, 1000), st.integers(0, 100)


@dataclass
class Model:
    """What the books must say. A request is in exactly one of open, closed and lost to memory."""

    limits: dict[str, int] = field(default_factory=dict)
    reserved: dict[str, str] = field(default_factory=dict)
    """Request → tenant."""
    open: dict[str, Hold] = field(default_factory=dict)
    ours: set[str] = field(default_factory=set)
    """Of the open ones: those that the living run knows. The others are the reconciler's."""
    spooled: dict[str, Settlement] = field(default_factory=dict)
    provisional: dict[str, int] = field(default_factory=dict)
    final: dict[str, int] = field(default_factory=dict)

    @property
    def orphans(self) -> set[str]:
        return self.open.keys() - self.ours - self.spooled.keys()

    def held(self, tenant: str) -> int:
        return sum(
            h.amount_nanousd for n, h in self.open.items() if h.is_recorded and self.reserved[n] == tenant
        )

    def spent(self, tenant: str) -> int:
        closed = self.final | self.provisional
        return sum(amount for name, amount in closed.items() if self.reserved[name] == tenant)


def machine_of(database_url: str, directory: Path) -> type[RuleBasedStateMachine]:
    """Hypothesis makes the machines itself, so what they work on is given by closure."""
    numbers = iter(range(1_000_000))

    class LedgerMachine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.loop = asyncio.new_event_loop()
            self.number = next(numbers)
            self.model = Model()
            self.batch = SettleBatch(IdSource())
            self.is_away = False

        def do(self, work: Coroutine[Any, Any, T]) -> T:
            return self.loop.run_until_complete(asyncio.wait_for(work, FINISH_S))

        def tenant(self, kind: str) -> str:
            return f"proj_{kind}_{self.number}"

        # -- life -----------------------------------------------------------------------------------------

        @initialize(limit=st.integers(50_000, 400_000))
        def begin(self, limit: int) -> None:
            self.do(self._begin(limit))

        async def _begin(self, limit: int) -> None:
            self.database = Database(database_url, name="test-model", pool_size=2, role=None)
            self.books = Books(self.database)
            self.proxy = TcpProxy(database_url)
            await self.proxy.restore()
            for kind in TENANTS:
                await self.books.add_tenant(self.tenant(kind))
            await self.books.add_budget(limit, tenant_id=self.tenant("hard"))
            await self.books.add_budget(1, tenant_id=self.tenant("soft"), is_hard=False)
            self.model.limits = {"hard": limit}
            await self._start()

        async def _start(self) -> None:
            self.ledger = Ledger(
                patient(self.proxy.url),
                gateway_id=GatewayId(f"gw-{self.number}"),
                settings=LedgerSettings(spool_dir=directory, outage_grace_s=3600, reserve_timeout_s=60),
                clock=SystemClock(),
                ids=IdSource(),
                metrics=Metrics(),
            )
            await self.ledger.start()

        async def _die(self) -> None:
            """As SIGKILL: nothing more is written, and the locks are free."""
            ledger = self.ledger
            tasks = (*ledger._batchers, *ledger._helpers)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            ledger._spool.close()
            ledger._unrecorded.close()
            await ledger._reserve_database.close()
            await ledger._settle_database.close()

        def teardown(self) -> None:
            if hasattr(self, "ledger"):
                self.do(self._end())
            self.loop.close()

        async def _end(self) -> None:
            if self.is_away:
                await self._return()
            await self._die()
            await self.proxy.cut()
            await self.database.close()

        # -- what callers do ------------------------------------------------------------------------------

        @rule(asked=st.lists(st.tuples(st.sampled_from(TENANTS), TOKENS, TOKENS), min_size=1, max_size=4))
        def reserve(self, asked: list[tuple[str, int, int]]) -> None:
            for one in asked:
                self.do(self._reserve(*one))

        async def _reserve(self, kind: str, prompt: int, output: int) -> None:
            name = f"req_{self.number}_{len(self.model.reserved)}"
            bound = prompt * 100 + output * 400
            room = self.model.limits.get(kind, 1 << 60) - self.model.spent(kind) - self.model.held(kind)
            asked = reservation(name, self.tenant(kind), max_prompt_tokens=prompt, max_output_tokens=output)
            try:
                hold = await self.ledger.reserve(asked)
            except BudgetExceeded:
                assert bound > room, "refused though it fits"
                return
            except LedgerUnavailable:
                assert self.is_away
                return
            assert not self.is_away or kind != "hard", "a hard budget cannot be kept without the database"
            assert bound <= room, "admitted though it does not fit"
            assert hold.is_recorded is not self.is_away
            self.model.reserved[name] = kind
            self.model.open[name] = hold
            self.model.ours.add(name)

        @precondition(lambda self: self.model.ours)
        @rule(pick=PICK, tokens=TOKENS)
        def settle(self, pick: int, tokens: int) -> None:
            name = self._pick(self.model.ours, pick)
            self.do(self._close(name, self._produced(name, tokens)))

        @precondition(lambda self: self.model.ours)
        @rule(pick=PICK)
        def release(self, pick: int) -> None:
            name = self._pick(self.model.ours, pick)
            hold = self.model.open[name]
            self.do(self._close(name, Settlement(hold, "error", NOW, error_code="test")))

        async def _close(self, name: str, one: Settlement) -> None:
            self.model.ours.discard(name)
            self.ledger.settle(one)
            await self._settled_or_spooled()
            if self.is_away:
                self.model.spooled[name] = one
            else:
                self._charge(name, one)

        # -- what goes wrong ------------------------------------------------------------------------------

        @precondition(lambda self: self.model.ours)
        @rule(pick=PICK, tokens=TOKENS, half_way=st.booleans())
        def die(self, pick: int, tokens: int, half_way: bool) -> None:
            """`half_way`: with a settlement handed in the moment before, which may or may not take place."""
            self.do(self._crash(self._pick(self.model.ours, pick) if half_way else None, tokens))

        async def _crash(self, name: str | None, tokens: int) -> None:
            if name is not None:
                one = self._produced(name, tokens)
                self.ledger.settle(one)
                await asyncio.sleep(tokens / 20_000)
            await self._die()
            self.model.ours.clear()
            await self._start()
            if name is not None:
                if not self.is_away:
                    await self._settled_or_spooled()
                if await self._is_settled(name):
                    self._charge(name, one)
                elif any(name.encode() in record for record in self.ledger._spool.read()):
                    self.model.spooled[name] = one
            if not self.is_away:
                await self._take_over()

        @precondition(lambda self: not self.is_away)
        @rule(kind=st.sampled_from(("soft", "free")), output=TOKENS)
        def die_over_what_only_the_disk_knows(self, kind: str, output: int) -> None:
            """Admitted without the database, and killed before it is back: seldom drawn as single steps."""
            self.lose_the_database()
            self.do(self._reserve(kind, 10, output))
            self.do(self._crash(None, 0))
            self.do(self._return())

        @precondition(lambda self: not self.is_away)
        @rule()
        def lose_the_database(self) -> None:
            self.do(self.proxy.cut())
            self.is_away = True

        @precondition(lambda self: self.is_away)
        @rule()
        def find_the_database(self) -> None:
            self.do(self._return())

        async def _return(self) -> None:
            await self.proxy.restore()
            self.is_away = False
            await self._settled_or_spooled()
            while self.ledger._outage.is_active:  # noqa: ASYNC110  (nobody else needs an event)
                await asyncio.sleep(0.01)
            for name, one in self.model.spooled.items():
                self._charge(name, one)
            self.model.spooled.clear()
            await self._take_over()

        async def _take_over(self) -> None:
            """What an earlier run left unrecorded has a hold now."""
            while not self.ledger._has_taken_over:  # noqa: ASYNC110  (nobody else needs an event)
                await asyncio.sleep(0.01)

        # -- what the worker does -------------------------------------------------------------------------

        @precondition(lambda self: not self.is_away and (self.model.orphans or self.model.provisional))
        @rule(pick=PICK, tokens=TOKENS)
        def find_evidence(self, pick: int, tokens: int) -> None:
            """The journal of a lost gateway's request, or of one that was settled without evidence."""
            names = self.model.orphans | self.model.provisional.keys()
            self.do(self._from_journal(self._pick(names, pick), tokens))

        async def _from_journal(self, name: str, tokens: int) -> None:
            hold = (await self._orphans()).get(name) or self.holds[name]
            asked = hold.reservation
            found = JournalAttempt(
                hold.request_id, 0, ReplicaId("r"), "e", True, min(tokens, asked.max_prompt_tokens), 0,
                min(tokens, asked.max_output_tokens), 0, None, "stop", None, None, None, NOW,
            )  # fmt: skip
            one = settlement_from_journal(hold, [found])
            expected = "corrected" if name in self.model.provisional else "settled"
            assert await self._apply(one) == [expected]
            self.model.provisional.pop(name, None)
            self._charge(name, one)

        @precondition(lambda self: not self.is_away and self.model.orphans)
        @rule(pick=PICK, may_have_run=st.booleans())
        def expire(self, pick: int, may_have_run: bool) -> None:
            self.do(self._expire(self._pick(self.model.orphans, pick), may_have_run))

        async def _expire(self, name: str, may_have_run: bool) -> None:
            hold = (await self._orphans())[name]
            self.holds[name] = hold
            one = settlement_without_evidence(hold, NOW, may_have_run=may_have_run)
            assert await self._apply(one) == ["settled"]
            self.model.open.pop(name)
            self.model.provisional[name] = cost(one)

        @precondition(lambda self: not self.is_away and self.model.final)
        @rule(pick=PICK, tokens=TOKENS)
        def settle_again(self, pick: int, tokens: int) -> None:
            """A record that was applied and not yet removed when its process died."""
            name = self._pick(self.model.final, pick)
            asked = reservation(name, self.tenant(self.model.reserved[name]))
            again = settlement(Hold(asked, 50_000, (), NOW, NOW), NOW, completion=tokens)
            assert self.do(self._apply(again)) == ["duplicate"]

        # -- what must hold -------------------------------------------------------------------------------

        @invariant()
        def books_are_the_models(self) -> None:
            if hasattr(self, "ledger"):
                self.do(self._check())

        async def _check(self) -> None:
            model = self.model
            closed = model.final | model.provisional
            assert model.open.keys().isdisjoint(closed)
            assert model.open.keys() | closed.keys() == model.reserved.keys(), (
                "open + settled + released = reserved"
            )
            for kind in ("hard", "soft"):
                found = await self.books.held_and_spent(f"budget-tenant-{self.tenant(kind)}-monthly")
                assert found == (model.held(kind), model.spent(kind)), kind
            assert model.held("hard") + model.spent("hard") <= model.limits["hard"]
            events = await self._rows(
                "SELECT request_id, sum(amount_nanousd)::bigint, count(*) FILTER (WHERE corrects IS NULL)"
                " FROM usage_event WHERE request_id LIKE :names GROUP BY 1"
            )
            assert {row[0]: row[1] for row in events} == closed
            assert all(row[2] == 1 for row in events)
            known = {name for name, hold in model.open.items() if hold.is_recorded}
            rows = await self._rows("SELECT request_id FROM hold WHERE request_id LIKE :names")
            unrecorded = model.open.keys() - known
            found_holds = {row[0] for row in rows}
            assert known <= found_holds <= known | unrecorded
            if not self.is_away:
                assert model.open.keys() - model.ours <= found_holds, "nobody will ever settle these"

        # -- inside ---------------------------------------------------------------------------------------

        @property
        def holds(self) -> dict[str, Hold]:
            """What requests that were settled without evidence had held."""
            return self.__dict__.setdefault("_holds", {})

        def _pick(self, names: Collection[str], number: int) -> str:
            return sorted(names)[number % len(names)]

        def _produced(self, name: str, tokens: int) -> Settlement:
            hold = self.model.open[name]
            asked = hold.reservation
            prompt, completion = min(tokens, asked.max_prompt_tokens), min(tokens, asked.max_output_tokens)
            return settlement(hold, NOW, prompt=prompt, cached=prompt // 2, completion=completion)

        def _charge(self, name: str, one: Settlement) -> None:
            self.model.open.pop(name, None)
            self.model.final[name] = cost(one)

        async def _apply(self, one: Settlement) -> list[Any]:
            operations = [Operation(settlement=one)]
            await self.batch.prepare(self.database, operations)
            return list(await commit_batch(self.database, operations, self.batch.apply))

        async def _orphans(self) -> dict[str, Hold]:
            async with self.database.transaction() as connection:
                return {
                    hold.request_id: hold for hold in await orphaned_holds(connection, 30, 1000, FIRST_HOLD)
                }

        async def _is_settled(self, name: str) -> bool:
            rows = await self.books.rows("SELECT 1 FROM settled_request WHERE request_id = :name", name=name)
            return bool(rows)

        async def _rows(self, statement: str) -> list[Any]:
            return await self.books.rows(statement, names=f"req\\_{self.number}\\_%")

        async def _settled_or_spooled(self) -> None:
            """While the database is there: applied. A ledger that has not noticed its return spools for a moment."""
            settler = self.ledger._settler
            while settler._queue or settler._is_committing or (settler._spool and not self.is_away):  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    return LedgerMachine


def cost(one: Settlement) -> int:
    return sum(
        (record.billed_prompt_tokens - record.billed_cached_tokens) * 100
        + record.billed_cached_tokens * 10
        + record.billed_completion_tokens * 400
        for record in one.attempts
    )


async def _add_prices(database_url: str) -> None:
    database = Database(database_url, name="test-model", pool_size=1, role=None)
    prices = {
        "input": PRICES.input_nanousd,
        "cached_input": PRICES.cached_input_nanousd,
        "output": PRICES.output_nanousd,
    }
    for component, price in prices.items():
        await Books(database).run(
            "INSERT INTO price (sku, component, valid_from, nanousd_per_token)"
            " VALUES ('tiny', :component, '2026-01-01Z', :price)",
            component=component,
            price=price,
        )
    await database.close()


async def _count_runs(database_url: str) -> int:
    database = Database(database_url, name="test-model", pool_size=1, role=None)
    count = await Books(database).count("gateway_instance")
    await database.close()
    return count


def test_any_history_of_crashes_and_outages_keeps_the_books(database_url: str, tmp_path: Path) -> None:
    """Duty C18: whatever dies and whenever, what was handed in is charged once, and the rest is open or given back."""
    asyncio.run(_add_prices(database_url))
    machine = machine_of(database_url, tmp_path / "spool")
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=12,
            stateful_step_count=25,
            deadline=None,
            print_blob=True,
            phases=(Phase.explicit, Phase.reuse, Phase.generate),  # shrinking would take minutes
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert asyncio.run(_count_runs(database_url)) > 12, "runs that followed a killed one"
