"""What engines are told of the objectives: when a request's first token is due, and each one after it.

Read whole and kept in memory until the revision feed says otherwise; a look-up costs no query. It does not know how an
engine keeps a promise.
"""

from __future__ import annotations

from gateway.db import Database
from gateway.slo.matching import holding
from gateway.slo.repository.objectives import all_objectives
from gateway.slo.types import Objective, Series
from gateway.upstream.dialect import NO_PROMISE, Promise

__all__ = ["Promises"]

KNOWN_MAX = 50_000
"""Of tenants' models; above it everything is looked up anew."""


class Promises:
    """`load()` before the first look-up and whenever the `routing` revision moves."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._objectives: list[Objective] = []
        self._known: dict[tuple[str, str, str], Promise] = {}

    async def load(self) -> None:
        """Errors of the database pass: what was read before stays in use."""
        async with self._database.transaction() as connection:
            objectives = await all_objectives(connection)
        self._objectives, self._known = objectives, {}

    def of(self, tenant_id: str, served_model: str, request_class: str) -> Promise:
        """By the objectives that hold for such requests."""
        key = (tenant_id, served_model, request_class)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            found = self._known[key] = self._find(*key)
        return found

    def _find(self, tenant_id: str, served_model: str, request_class: str) -> Promise:
        ttft, tpot = (
            holding(self._objectives, Series(tenant_id, served_model, request_class, sli))
            for sli in ("ttft", "tpot")
        )
        if ttft is None and tpot is None:
            return NO_PROMISE
        return Promise(
            ttft.threshold_us / 1000 if ttft is not None else None,
            tpot.threshold_us / 1000 if tpot is not None else None,
        )
