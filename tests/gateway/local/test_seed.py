"""The first rows: repeating changes nothing, a changed specification is a new generation, prices stay."""

from collections.abc import AsyncIterator
from decimal import Decimal

import pytest
from sqlalchemy import text

from gateway.clock import SystemClock
from gateway.db import Database
from gateway.local.seed import Offer, seed
from gateway.pool.spec import EngineSpec

OFFER = Offer("demo", "m", 512, {"input": Decimal(20), "cached_input": Decimal(5), "output": Decimal("60.5")})
SPEC = EngineSpec(model="m.gguf", served_names=("m",))


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="test")
    yield database
    await database.close()


async def _rows(database: Database, query: str) -> list[tuple[object, ...]]:
    async with database.read() as session:
        return [tuple(row) for row in await session.execute(text(query))]


async def test_repeating_changes_nothing(database: Database) -> None:
    everything = (
        "SELECT p.id, p.generation, p.spec, r.id, r.served_model, r.sku, r.tenant_id, r.default_max_output"
        " FROM pool p JOIN route r ON r.pool_id = p.id"
    )
    await seed(database, SPEC, OFFER, SystemClock())
    first = await _rows(database, everything)
    await seed(database, SPEC, OFFER, SystemClock())
    assert await _rows(database, everything) == first
    assert first[0][4:] == ("m", "m", None, 512)
    assert EngineSpec.model_validate(first[0][2]) == SPEC


async def test_a_changed_specification_is_a_new_generation(database: Database) -> None:
    await seed(database, SPEC, OFFER, SystemClock())
    await seed(database, SPEC.model_copy(update={"model": "other.gguf"}), OFFER, SystemClock())
    assert await _rows(database, "SELECT generation, spec->>'model' FROM pool") == [(2, "other.gguf")]


@pytest.mark.parametrize(
    ("details", "stays"),
    [
        ('{"before": {"name": "a", "spec": {"m": 1}}, "after": {"name": "b", "spec": {"m": 1}}}', False),
        ('{"before": {"spec": {"m": 1}}, "after": {"spec": {"m": 2}}}', True),
    ],
)
async def test_what_an_operator_changed_stays_until_a_model_is_named(
    database: Database, details: str, stays: bool
) -> None:
    model = "SELECT spec->>'model' FROM pool"
    await seed(database, SPEC, OFFER, SystemClock())
    async with database.write() as session:
        await session.execute(text("""UPDATE pool SET spec = jsonb_set(spec, '{model}', '"theirs"')"""))
        await session.execute(
            text(
                "INSERT INTO audit_log (id, actor_kind, actor_id, action, resource_kind, resource_id, details)"
                " SELECT gen_random_uuid(), 'admin_key', 'a', 'pool.updated', 'pool', id, CAST(:details AS jsonb)"
                " FROM pool"
            ),
            {"details": details},
        )
    await seed(database, SPEC, OFFER, SystemClock(), is_asked=False)
    assert await _rows(database, model) == [("theirs" if stays else "m.gguf",)]
    await seed(database, SPEC, OFFER, SystemClock())
    assert await _rows(database, model) == [("m.gguf",)]


async def test_a_price_that_the_operator_changed_stays(database: Database) -> None:
    await seed(database, SPEC, OFFER, SystemClock())
    async with database.write() as session:
        new_price = "INSERT INTO price (sku, component, valid_from, nanousd_per_token) VALUES ('m', 'input', now(), 7)"
        await session.execute(text(new_price))
    await seed(database, SPEC, OFFER, SystemClock())
    latest = (
        "SELECT DISTINCT ON (component) component, nanousd_per_token FROM price ORDER BY 1, valid_from DESC"
    )
    assert await _rows(database, latest) == [("cached_input", 5), ("input", 7), ("output", Decimal("60.5"))]
