"""Keys on a real database: one request at a time, whatever gateway; kept for a day; freed when nothing is kept."""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from gateway.db import Database
from gateway.errors import ServiceUnavailable
from gateway.idempotency import Claim, Idempotency, StoredAnswer
from gateway.idempotency.errors import KeyNotUsable, KeyReused, StillInFlight
from gateway.ids import RequestId, TenantId
from gateway.keyring import Keyring, Keys, SecretBox
from gateway.obs.metrics import Metrics
from tests.fakes.clock import ManualClock
from tests.gateway.books import Books, books

__all__ = ["books"]

A, B = TenantId("proj_a"), TenantId("proj_b")
DAY_S = 86_400


def box(master: bytes) -> SecretBox:
    return SecretBox(Keyring(Keys({"m1": master})), "idempotency", os.urandom)


class Desk:
    """Two gateways on one database and one clock."""

    def __init__(self, database: Database) -> None:
        self.clock = ManualClock(datetime.now(UTC))
        self.gateways = [
            Idempotency(database, box(b"master"), run, self.clock, Metrics()) for run in ("run_1", "run_2")
        ]

    async def begin(
        self, name: str, *, gateway: int = 0, tenant: TenantId = A, key: str = "k", body: bytes = b"{}"
    ) -> Claim | StoredAnswer:
        return await self.gateways[gateway].begin(tenant, key, "chat.completions", body, RequestId(name))

    async def claim(self, name: str, **how: object) -> Claim:
        claim = await self.begin(name, **how)  # type: ignore[arg-type]  # the same keywords
        assert isinstance(claim, Claim)
        return claim

    async def drain(self) -> None:
        for gateway in self.gateways:
            await gateway.drain()


@pytest.fixture
async def desk(books: Books, database_url: str) -> AsyncIterator[Desk]:
    await books.add_tenant("proj_b")
    await books.run(
        "INSERT INTO gateway_instance (instance_id, gateway_id) VALUES ('run_1', 'a'), ('run_2', 'b')"
    )
    database = Database(database_url, name="test-idempotency", pool_size=4)
    desk = Desk(database)
    yield desk
    await desk.drain()
    await database.close()


async def test_the_same_key_and_body_get_the_first_answer_on_every_gateway(desk: Desk) -> None:
    await (await desk.claim("req_1")).keep(b"the answer")
    for gateway in (0, 1):
        again = await desk.begin("req_2", gateway=gateway)
        assert again == StoredAnswer(b"the answer", RequestId("req_1"))


async def test_one_of_twenty_at_once_runs(desk: Desk) -> None:
    results = await asyncio.gather(
        *(desk.begin(f"req_{number}", gateway=number % 2) for number in range(20)), return_exceptions=True
    )
    assert sum(isinstance(result, Claim) for result in results) == 1
    assert sum(isinstance(result, StillInFlight) for result in results) == 19


async def test_another_body_or_endpoint_is_refused_in_flight_and_after(desk: Desk) -> None:
    claim = await desk.claim("req_1")
    with pytest.raises(KeyReused):
        await desk.begin("req_2", body=b"{ }")
    await claim.keep(b"the answer")
    with pytest.raises(KeyReused):
        await desk.begin("req_2", body=b"{ }")
    with pytest.raises(KeyReused):
        await desk.gateways[0].begin(A, "k", "completions", b"{}", RequestId("req_3"))


async def test_keys_of_other_tenants_are_other_keys(desk: Desk, books: Books) -> None:
    await (await desk.claim("req_1")).keep(b"of a")
    await (await desk.claim("req_2", tenant=B)).keep(b"of b")
    assert await desk.begin("req_3", tenant=B) == StoredAnswer(b"of b", RequestId("req_2"))
    rows = await books.rows("SELECT key_hash, answer_sealed FROM idempotent_request")
    assert len({row.key_hash for row in rows}) == 2
    assert all(b"of" not in row.answer_sealed for row in rows)
    # An answer moved to another tenant's row is not readable there.
    await books.run(
        "UPDATE idempotent_request SET answer_sealed = (SELECT answer_sealed FROM idempotent_request WHERE"
        " tenant_id = 'proj_a')"
    )
    with pytest.raises(ServiceUnavailable):
        await desk.begin("req_4", tenant=B)


async def test_what_is_not_kept_frees_the_key(desk: Desk) -> None:
    (await desk.claim("req_1")).close()
    await desk.drain()
    claim = await desk.claim("req_2", body=b"another")
    await claim.keep(b"x")
    claim.close()
    await desk.drain()
    assert isinstance(await desk.begin("req_3", body=b"another"), StoredAnswer)


async def test_a_key_is_free_after_a_day(desk: Desk) -> None:
    await (await desk.claim("req_1")).keep(b"x")
    desk.clock.step_wall(DAY_S - 1)
    assert isinstance(await desk.begin("req_2"), StoredAnswer)
    desk.clock.step_wall(1)
    await desk.claim("req_3", body=b"another")


async def test_the_key_of_a_dead_gateway_is_free_and_its_late_answer_is_nobodys(
    desk: Desk, books: Books
) -> None:
    lost = await desk.claim("req_1")
    with pytest.raises(StillInFlight):
        await desk.begin("req_2", gateway=1)
    await books.run(
        "UPDATE gateway_instance SET heartbeat_at = now() - interval '31 seconds' WHERE instance_id = 'run_1'"
    )
    found = await desk.claim("req_3", gateway=1)
    await lost.keep(b"late")
    await found.keep(b"found")
    assert await desk.begin("req_4", gateway=1) == StoredAnswer(b"found", RequestId("req_3"))


@pytest.mark.parametrize("key", ["", "x" * 256, "smörgås", "a\tb"])
async def test_a_key_that_makes_no_sense_is_refused(desk: Desk, key: str) -> None:
    with pytest.raises(KeyNotUsable):
        await desk.begin("req_1", key=key)


async def test_without_the_database_nobody_knows() -> None:
    away = Database("postgresql://nobody@127.0.0.1:1/none", name="test")
    clock = ManualClock(datetime.now(UTC))
    with pytest.raises(ServiceUnavailable) as refused:
        await Idempotency(away, box(b"m"), "run", clock, Metrics()).begin(
            A, "k", "completions", b"{}", RequestId("req_1")
        )
    assert refused.value.status == 503
    await away.close()
