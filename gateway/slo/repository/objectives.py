"""Objectives as rows: made, changed, paged; and all of them, for whoever counts or judges by them."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert

from gateway.db import ReadSession, WriteConnection, WriteSession
from gateway.slo import models
from gateway.slo.types import Objective

__all__ = ["ObjectiveRepository", "all_objectives"]

_ALL = text(
    """
    SELECT id, tenant_id, served_model, request_class, sli, threshold_us, target_ppm, created_at, is_recounted
    FROM objective ORDER BY id
    """
)


async def all_objectives(connection: WriteConnection) -> list[Objective]:
    return [Objective(**row) for row in (await connection.execute(_ALL)).mappings()]


class ObjectiveRepository:
    async def insert(self, session: WriteSession, objective: Objective) -> bool:
        """False if there is one about exactly the same requests."""
        row = insert(models.Objective).values(
            id=objective.id,
            tenant_id=objective.tenant_id,
            served_model=objective.served_model,
            request_class=objective.request_class,
            sli=objective.sli,
            threshold_us=objective.threshold_us,
            target_ppm=objective.target_ppm,
            created_at=objective.created_at,
            is_recounted=objective.is_recounted,
        )
        made = await session.execute(row.on_conflict_do_nothing().returning(models.Objective.id))
        return made.first() is not None

    async def change(self, session: WriteSession, objective: Objective) -> None:
        """The promise; what it is about stays."""
        await session.execute(
            update(models.Objective)
            .where(models.Objective.id == objective.id)
            .values(
                threshold_us=objective.threshold_us,
                target_ppm=objective.target_ppm,
                is_recounted=objective.is_recounted,
                updated_at=func.now(),
            )
        )

    async def delete(self, session: WriteSession, objective_id: str) -> None:
        await session.execute(delete(models.Objective).where(models.Objective.id == objective_id))

    async def objective(
        self, session: ReadSession, objective_id: str, tenants: Collection[str] | None = None
    ) -> Objective | None:
        """`tenants`: whose alone may be seen, beside those that are about everybody."""
        row = await session.get(models.Objective, objective_id)
        if row is None or (tenants is not None and row.tenant_id not in (None, *tenants)):
            return None
        return _objective(row)

    async def locked(self, session: WriteSession, objective_id: str) -> Objective | None:
        """For a change: the row is locked until the transaction ends."""
        query = select(models.Objective).where(models.Objective.id == objective_id).with_for_update()
        row = await session.scalar(query)
        return _objective(row) if row is not None else None

    async def page(
        self, session: ReadSession, tenants: Collection[str] | None, after: str | None, limit: int
    ) -> list[Objective]:
        """By id. `tenants`: whose, beside those that are about everybody; None for all."""
        table = models.Objective
        query = select(table).order_by(table.id).limit(limit)
        if tenants is not None:
            query = query.where(or_(table.tenant_id.is_(None), table.tenant_id.in_(tenants)))
        if after is not None:
            query = query.where(table.id > after)
        return [_objective(row) for row in await session.scalars(query)]


def _objective(row: models.Objective) -> Objective:
    return Objective(
        id=row.id,
        tenant_id=row.tenant_id,
        served_model=row.served_model,
        request_class=row.request_class,  # type: ignore[arg-type]  # the table's check lists the same values
        sli=row.sli,  # type: ignore[arg-type]  # and so does its other one
        threshold_us=row.threshold_us,
        target_ppm=row.target_ppm,
        created_at=row.created_at,
        is_recounted=row.is_recounted,
    )
