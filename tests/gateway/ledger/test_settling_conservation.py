"""A reference model against the real ledger: after every step, open + settled + released = reserved.

Hypothesis draws the interleaving: reservations, settlements (some twice, some by another process, some in one batch
with their own duplicate), releases, holds that vanish, requests settled without evidence and corrected later.
"""

from dataclasses import dataclass, field
from itertools import count

from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from gateway.db import Database
from gateway.ids import IdSource
from gateway.ledger.batcher import commit_batch
from gateway.ledger.errors import BudgetExceeded
from gateway.ledger.service import Ledger
from gateway.ledger.settling import Operation, Outcome, SettleBatch
from gateway.ledger.types import AttemptRecord, Hold, Settlement
from gateway.reconcile.evidence import settlement_without_evidence
from tests.gateway.books import Books, MakeLedger
from tests.gateway.ledger.builders import reservation, settlement
from tests.instants import just_now

NOW = just_now()
_EXAMPLES = count(1)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), st.integers(0, 100), st.integers(0, 100)),
        st.tuples(
            st.sampled_from(["settle", "settle_twice", "settle_late", "release", "vanish", "expire"]),
            st.integers(0, 1000),
            st.integers(0, 100),
        ),
    ),
    min_size=1,
    max_size=14,
)


@dataclass
class Model:
    """What the books must say."""

    tenant: str
    limit: int
    reserved: dict[str, int] = field(default_factory=dict)
    open: dict[str, Hold] = field(default_factory=dict)
    vanished: set[str] = field(default_factory=set)
    provisional: dict[str, int] = field(default_factory=dict)
    final: dict[str, int] = field(default_factory=dict)
    holds: dict[str, Hold] = field(default_factory=dict)

    @property
    def held(self) -> int:
        return sum(hold.amount_nanousd for name, hold in self.open.items() if name not in self.vanished)

    @property
    def spent(self) -> int:
        return sum(self.final.values()) + sum(self.provisional.values())

    def pick(self, names: list[str], number: int) -> str | None:
        return names[number % len(names)] if names else None


class Driver:
    """Applies one drawn step to the ledger and to the model."""

    def __init__(self, ledger: Ledger, books: Books, database: Database, model: Model) -> None:
        self.ledger, self.books, self.database, self.model = ledger, books, database, model
        self.batch = SettleBatch(IdSource())

    async def apply(self, *settlements: Settlement) -> list[Outcome]:
        operations = [Operation(settlement=one) for one in settlements]
        await self.batch.prepare(self.database, operations)
        results = await commit_batch(self.database, operations, self.batch.apply)
        for result in results:
            assert not isinstance(result, Exception), result
        return results  # type: ignore[return-value]

    async def step(self, kind: str, number: int, tokens: int) -> None:
        if kind == "reserve":
            await self.reserve(number, tokens)
            return
        if kind == "settle_late":
            await self.settle_late(number, tokens)
            return
        name = self.model.pick(sorted(self.model.open), number)
        if name is not None:
            await getattr(self, kind)(name, tokens)

    async def reserve(self, prompt: int, output: int) -> None:
        name = f"{self.model.tenant}-{len(self.model.reserved)}"
        bound = prompt * 100 + output * 400
        fits = self.model.spent + self.model.held + bound <= self.model.limit
        asked = reservation(name, self.model.tenant, max_prompt_tokens=prompt, max_output_tokens=output)
        try:
            hold = await self.ledger.reserve(asked)
        except BudgetExceeded:
            assert not fits, "refused though it fits"
            return
        assert fits, "admitted though it does not fit"
        assert hold.amount_nanousd == bound
        self.model.reserved[name] = bound
        self.model.open[name] = self.model.holds[name] = hold

    async def settle(self, name: str, tokens: int) -> None:
        hold = self.model.open.pop(name)
        one = self.produced(hold, tokens)
        assert await self.apply(one) == ["settled"]
        self.charge(name, one)

    async def settle_twice(self, name: str, tokens: int) -> None:
        """In one batch with its duplicate, and once more after it."""
        hold = self.model.open.pop(name)
        one = self.produced(hold, tokens)
        assert sorted(await self.apply(one, self.produced(hold, tokens))) == ["duplicate", "settled"]
        self.charge(name, one)
        assert await self.apply(self.produced(hold, 0)) == ["duplicate"]

    async def release(self, name: str, tokens: int) -> None:
        hold = self.model.open.pop(name)
        assert await self.apply(Settlement(hold, "error", NOW, error_code="test")) == ["settled"]
        self.model.final[name] = 0

    async def vanish(self, name: str, tokens: int) -> None:
        """The hold is gone, as after a discard; whoever settles later still charges."""
        hold = self.model.open[name]
        operation = [Operation(discard=hold.request_id)]
        assert await commit_batch(self.database, operation, self.batch.apply) == ["discarded"]
        self.model.vanished.add(name)

    async def expire(self, name: str, tokens: int) -> None:
        hold = self.model.open.pop(name)
        one = settlement_without_evidence(hold, NOW, may_have_run=tokens % 2 == 0)
        assert await self.apply(one) == ["settled"]
        self.model.provisional[name] = cost(one)

    async def settle_late(self, number: int, tokens: int) -> None:
        """Better evidence about what was settled without any: corrected once, then final."""
        name = self.model.pick(sorted(self.model.provisional), number)
        if name is None:
            return
        one = self.produced(self.model.holds[name], tokens)
        assert await self.apply(one) == ["corrected"]
        del self.model.provisional[name]
        self.charge(name, one)
        assert await self.apply(one) == ["duplicate"]

    def produced(self, hold: Hold, tokens: int) -> Settlement:
        asked = hold.reservation
        prompt = min(tokens, asked.max_prompt_tokens)
        completion = min(tokens, asked.max_output_tokens)
        return settlement(hold, NOW, prompt=prompt, cached=prompt // 2, completion=completion)

    def charge(self, name: str, one: Settlement) -> None:
        self.model.final[name] = cost(one)

    async def check(self) -> None:
        model = self.model
        held, spent = await self.books.held_and_spent(f"budget-tenant-{model.tenant}-monthly")
        assert (held, spent) == (model.held, model.spent)
        assert held >= 0
        # What a vanished hold no longer blocks may be spent twice; every other history stays within the limit.
        assert held + spent <= model.limit or model.vanished
        open_holds = "SELECT coalesce(sum(amount_nanousd), 0)::bigint FROM hold WHERE tenant_id = :tenant"
        assert await self.books.value(open_holds, tenant=model.tenant) == model.held
        events = await self.books.rows(
            "SELECT request_id, sum(amount_nanousd)::bigint, count(*) FILTER (WHERE corrects IS NULL)"
            " FROM usage_event WHERE tenant_id = :tenant GROUP BY 1",
            tenant=model.tenant,
        )
        assert {row[0]: row[1] for row in events} == model.final | model.provisional
        assert all(row[2] == 1 for row in events)
        assert set(model.reserved) == set(model.open) | set(model.final) | set(model.provisional)

    async def check_attempts(self) -> None:
        """The event is the sum of what its attempts billed, corrections included."""
        rows = await self.books.rows(
            "SELECT e.request_id, e.tokens, coalesce(a.billed, 0) FROM"
            " (SELECT request_id, sum(prompt_uncached_tokens + prompt_cached_tokens + completion_tokens)::bigint"
            "  AS tokens FROM usage_event WHERE tenant_id = :tenant GROUP BY 1) e LEFT JOIN"
            " (SELECT request_id, sum(billed_prompt_tokens + billed_completion_tokens)::bigint AS billed"
            "  FROM attempt WHERE tenant_id = :tenant GROUP BY 1) a USING (request_id)",
            tenant=self.model.tenant,
        )
        wrong = [row for row in rows if row[1] != row[2] and row[0] not in self.model.provisional]
        assert not wrong


def cost(one: Settlement) -> int:
    return sum(_cost_of(record) for record in one.attempts)


def _cost_of(record: AttemptRecord) -> int:
    cached = record.billed_cached_tokens
    uncached = record.billed_prompt_tokens - cached
    return uncached * 100 + cached * 10 + record.billed_completion_tokens * 400


@settings(
    max_examples=60,
    deadline=None,
    print_blob=True,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # 14 steps need no shrinking, which takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(limit=st.integers(0, 200_000), plan=steps)
async def test_open_settled_and_released_add_up_to_reserved(
    make_ledger: MakeLedger, books: Books, database_url: str, limit: int, plan: list[tuple[str, int, int]]
) -> None:
    model = Model(tenant=f"proj_{next(_EXAMPLES)}", limit=limit)
    note(f"tenant {model.tenant}")
    await books.add_tenant(model.tenant)
    await books.add_budget(limit, tenant_id=model.tenant)
    ledger = await make_ledger(f"gw-{model.tenant}")
    database = Database(database_url, name="test-settle", pool_size=1)
    driver = Driver(ledger, books, database, model)
    try:
        for kind, number, tokens in plan:
            await driver.step(kind, number, tokens)
            await driver.check()
        await driver.check_attempts()
    finally:
        ledger._open.clear()
        await ledger.drain()
        await database.close()
