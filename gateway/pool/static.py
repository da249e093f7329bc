"""Engines that somebody else runs, at fixed URLs.

Place: the launcher of `external` pools. It starts and ends nothing; whether such an engine lives is told
by the probe alone.
"""

from collections.abc import Collection

from gateway.ids import ReplicaId
from gateway.pool.launcher import Assignment, LaunchError, Observed, Running
from gateway.pool.process import ProcessMark
from gateway.pool.spec import EngineSpec

__all__ = ["StaticLauncher"]


class StaticLauncher:
    exit_is_end = True

    def runs(self, spec: EngineSpec) -> bool:
        return spec.kind == "external"

    def assign(
        self, replica_id: ReplicaId, spec: EngineSpec, taken: Collection[Assignment], last: str | None
    ) -> Assignment:
        for url in _free_urls(spec, taken):
            return Assignment(url, ())
        raise LaunchError("every URL of the pool has its replica")

    def room(self, spec: EngineSpec, taken: Collection[Assignment]) -> int | None:
        return len(_free_urls(spec, taken))

    async def launch(
        self, replica_id: ReplicaId, pool: str, spec: EngineSpec, assignment: Assignment
    ) -> Running:
        return Running(None)

    async def find(self, replica_id: ReplicaId, mark: ProcessMark | None) -> Running | None:
        return Running(None)

    async def observe(self, running: Running) -> Observed:
        return Observed(alive=True)

    async def terminate(self, running: Running) -> None:
        """Not ours to end."""

    async def kill(self, replica_id: ReplicaId, running: Running | None) -> None:
        """Not ours to end."""

    async def survey(self) -> None:
        """Nobody knows what it runs on."""

    def fault(self, devices: Collection[str]) -> str | None:
        return None

    async def strays(self, known: Collection[ReplicaId]) -> tuple[ReplicaId, ...]:
        return ()


def _free_urls(spec: EngineSpec, taken: Collection[Assignment]) -> list[str]:
    used = {assignment.url for assignment in taken}
    return [url for url in spec.addresses if url not in used]
