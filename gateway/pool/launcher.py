"""The Launcher protocol: how the supervisor starts, watches and ends one replica, wherever it runs.

Place: between the supervisor and local processes or static URLs. A launcher keeps no desired state and
reads no database; it may be asked about replicas that an earlier supervisor started.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gateway.ids import ReplicaId
from gateway.pool.process import ProcessMark
from gateway.pool.spec import EngineSpec

__all__ = ["Assignment", "LaunchError", "Launcher", "LauncherUnavailable", "Observed", "Running"]


class LaunchError(Exception):
    """The replica cannot be started now; the message is for the operator."""


class LauncherUnavailable(Exception):
    """Whoever runs the replicas cannot be asked now: nothing is known of them, and nothing was done."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a replica takes from its node; reserved in the database before anything starts."""

    url: str
    gpus: tuple[int, ...]
    """Indices, as far as they are known; for a person to read."""
    devices: tuple[str, ...] = ()
    """The same by UUID where the node can tell, else by index: what is booked and what the replica sees."""


@dataclass(frozen=True, slots=True)
class Running:
    """What identifies a started replica later: nothing for an engine that somebody else runs."""

    mark: ProcessMark | None
    log: Path | None = None
    """What it writes while it runs, from `log_from` on."""
    log_from: int = 0
    name: str = ""
    """What a cluster calls it."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Whether the replica's process lives; the exit code when it is known (negative: a signal)."""

    alive: bool
    exit_code: int | None = None
    last_words: str = ""
    """The last line that it wrote, if it ended by itself."""


class Launcher(Protocol):
    exit_is_end: bool
    """Whether an engine that exits stays ended. If something starts it again, only `terminate` lets it go."""

    def runs(self, spec: EngineSpec) -> bool:
        """Whether this is a launcher for such pools."""
        ...

    def assign(
        self, replica_id: ReplicaId, spec: EngineSpec, taken: Collection[Assignment], last: str | None
    ) -> Assignment:
        """Choose an address and devices that none of `taken` has; `last` is the replica's former address."""
        ...

    def room(self, spec: EngineSpec, taken: Collection[Assignment]) -> int | None:
        """For how many more replicas there are devices that none of `taken` has; None: nothing of that kind is short."""
        ...

    async def launch(
        self, replica_id: ReplicaId, pool: str, spec: EngineSpec, assignment: Assignment
    ) -> Running:
        """Start it; `pool` is for a person to read. Raises LaunchError."""
        ...

    async def find(self, replica_id: ReplicaId, mark: ProcessMark | None) -> Running | None:
        """A living replica that an earlier supervisor started, whether or not it wrote the mark down."""
        ...

    async def observe(self, running: Running) -> Observed: ...

    async def terminate(self, running: Running) -> None:
        """Ask it to finish its requests and exit."""
        ...

    async def kill(self, replica_id: ReplicaId, running: Running | None) -> None:
        """End it and whatever it started, now. Raises LauncherUnavailable while something of it is left."""
        ...

    async def survey(self) -> None:
        """Look at the node's devices, if it is time."""
        ...

    def fault(self, devices: Collection[str]) -> str | None:
        """Why what runs on these devices cannot go on."""
        ...

    async def strays(self, known: Collection[ReplicaId]) -> tuple[ReplicaId, ...]:
        """Replicas of this installation that run although nobody has them in the books."""
        ...
