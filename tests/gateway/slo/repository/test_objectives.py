"""Objectives as rows: one per scope, seeded with the usual ones, a tenant's own seen by nobody else."""

from __future__ import annotations

from dataclasses import replace

from gateway.db import ReadSession
from gateway.slo.repository.objectives import ObjectiveRepository, all_objectives
from tests.gateway.books import Books, books
from tests.gateway.slo.test_matching import objective

__all__ = ["books"]


async def test_the_usual_promises_are_there_from_the_start(books: Books) -> None:
    async with books.database.transaction() as connection:
        found = await all_objectives(connection)
    promised = {(one.request_class, one.sli): (one.threshold_us, one.target_ppm) for one in found}
    assert promised == {
        ("interactive", "availability"): (0, 999_000),
        ("interactive", "ttft"): (800_000, 950_000),
        ("interactive", "tpot"): (40_000, 950_000),
        ("batch", "availability"): (0, 999_000),
        ("batch", "ttft"): (3_000_000, 950_000),
        ("batch", "tpot"): (80_000, 950_000),
    }
    assert all(one.tenant_id is one.served_model is None and one.is_recounted for one in found)


async def test_one_per_scope_changed_and_deleted(books: Books) -> None:
    repository = ObjectiveRepository()
    mine = objective("objective_a", tenant_id="proj_a", served_model="m")
    async with books.database.write() as session:
        assert await repository.insert(session, mine)
        assert not await repository.insert(session, replace(mine, id="objective_b", threshold_us=10))
        changed = replace(mine, threshold_us=500_000, target_ppm=990_000, is_recounted=False)
        await repository.change(session, changed)
        assert await repository.locked(session, "objective_a") == changed
        assert await repository.locked(session, "objective_b") is None
    async with books.database.read() as reading:
        assert await repository.objective(reading, "objective_a") == changed
    async with books.database.write() as session:
        await repository.delete(session, "objective_a")
        assert await repository.objective(ReadSession(session), "objective_a") is None


async def test_pages_and_whose_may_be_seen(books: Books) -> None:
    await books.add_tenant("proj_b")
    repository = ObjectiveRepository()
    async with books.database.write() as session:
        for number in range(3):
            owner = ("proj_a", "proj_b")[number % 2]
            made = objective(f"x{number}", tenant_id=owner, served_model=f"m{number}")
            assert await repository.insert(session, made)
    async with books.database.read() as reading:
        first = await repository.page(reading, None, None, 5)
        rest = await repository.page(reading, None, first[-1].id, 5)
        assert [one.id for one in rest][-3:] == ["x0", "x1", "x2"]
        assert len(first) + len(rest) == 9
        theirs = await repository.page(reading, ["proj_b"], None, 100)
        assert [one.id for one in theirs if one.tenant_id] == ["x1"]
        assert await repository.objective(reading, "x1", ["proj_a"]) is None
        assert await repository.objective(reading, "objective_batch_ttft", ["proj_a"]) is not None
