"""The evaluator: new promises get their history, then every series is judged and written down. For the worker.

Any number of workers may run one: a recount replaces what it counts, and states are the same whoever writes them.
"""

from __future__ import annotations

from datetime import timedelta

from gateway.clock import Clock
from gateway.db import Database
from gateway.obs.logging import get_logger
from gateway.slo.burn import slices
from gateway.slo.evaluation import evaluate
from gateway.slo.repository.counts import recount
from gateway.slo.repository.objectives import all_objectives
from gateway.slo.repository.states import counted_slices, write_states
from gateway.slo.types import WINDOW_DAYS, State

__all__ = ["Evaluator"]

HISTORY = timedelta(days=WINDOW_DAYS + 1)
"""The window, which begins with a whole hour."""


class Evaluator:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._log = get_logger(__name__)

    async def run_once(self) -> list[State]:
        now = self._clock.now()
        async with self._database.transaction() as connection:
            objectives = await all_objectives(connection)
        for objective in objectives:
            if not objective.is_recounted:
                async with self._database.transaction() as connection:
                    await recount(connection, objective, now - HISTORY)
                self._log.info("objective_recounted", objective=objective.id)
        async with self._database.transaction() as connection:
            counted = await counted_slices(connection, slices(int(now.timestamp())))
            states = evaluate(objectives, counted, int(now.timestamp()))
            await write_states(connection, states, now)
        return states
