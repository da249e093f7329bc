"""Exports as the worker makes them, for tests that ask for one."""

from __future__ import annotations

from gateway.db import Database
from gateway.exports.destination import configured_store
from gateway.exports.jobs import ExportJobs
from gateway.ids import IdSource
from gateway.obs.metrics import Metrics
from tests.harness import Gateway

__all__ = ["work"]


async def work(gateway: Gateway) -> None:
    """What the worker does every few seconds."""
    store = configured_store(gateway.settings.exports)
    assert store is not None
    database = Database.of(gateway.settings.database, name="test-exports", pool_size=3)
    await ExportJobs(database, store, IdSource(), Metrics()).run_due()
    await database.close()
