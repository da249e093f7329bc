"""Search of the console: ids exactly, names by what they contain. Each kind has its own small query and cap."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import InstrumentedAttribute

from gateway.db import ReadSession
from gateway.ledger.models import UsageEvent
from gateway.routing.models import Route
from gateway.tenancy.models import ApiKey, Tenant

__all__ = ["EACH_MAX", "Hit", "Search"]

EACH_MAX = 8


@dataclass(frozen=True, slots=True)
class Hit:
    """`kind`: project, api_key, model or request. A model's id is its served name."""

    kind: str
    id: str
    name: str
    project_id: str | None


class Search:
    """`own`: the tenants that may be found, with what is theirs; None for all."""

    async def find(
        self, session: ReadSession, text: str, own: Collection[str] | None, keys: bool
    ) -> list[Hit]:
        hits = await self._projects(session, text, own)
        hits += await self._keys(session, text, own) if keys else []
        hits += await self._models(session, text, own)
        return hits + await self._requests(session, text, own)

    async def _projects(self, session: ReadSession, text: str, own: Collection[str] | None) -> list[Hit]:
        query = select(Tenant.id, Tenant.name).where(or_(Tenant.id == text, _holds(Tenant.name, text)))
        if own is not None:
            query = query.where(Tenant.id.in_(own))
        rows = await session.execute(query.order_by(Tenant.name, Tenant.id).limit(EACH_MAX))
        return [Hit("project", id_, name, id_) for id_, name in rows]

    async def _keys(self, session: ReadSession, text: str, own: Collection[str] | None) -> list[Hit]:
        """By id, by name, and by the public part, which is what people see of a key: `tw-abcdefgh-…`."""
        public = text.removeprefix("tw-")[:8]
        query = select(ApiKey.id, ApiKey.name, ApiKey.tenant_id).where(
            or_(ApiKey.id == text, ApiKey.public_id == public, _holds(ApiKey.name, text))
        )
        if own is not None:
            query = query.where(ApiKey.tenant_id.in_(own))
        rows = await session.execute(query.order_by(ApiKey.name, ApiKey.id).limit(EACH_MAX))
        return [Hit("api_key", id_, name, tenant) for id_, name, tenant in rows]

    async def _models(self, session: ReadSession, text: str, own: Collection[str] | None) -> list[Hit]:
        query = select(Route.served_model).distinct().where(_holds(Route.served_model, text))
        if own is not None:
            query = query.where(or_(Route.tenant_id.is_(None), Route.tenant_id.in_(own)))
        names = await session.scalars(query.order_by(Route.served_model).limit(EACH_MAX))
        return [Hit("model", name, name, None) for name in names]

    async def _requests(self, session: ReadSession, text: str, own: Collection[str] | None) -> list[Hit]:
        if not text.startswith("req_"):
            return []
        query = select(UsageEvent.request_id, UsageEvent.tenant_id).where(UsageEvent.request_id == text)
        if own is not None:
            query = query.where(UsageEvent.tenant_id.in_(own))
        rows = await session.execute(query.limit(1))
        return [Hit("request", id_, id_, tenant) for id_, tenant in rows]


def _holds(column: InstrumentedAttribute[str], text: str) -> ColumnElement[bool]:
    return column.icontains(text, autoescape=True)
