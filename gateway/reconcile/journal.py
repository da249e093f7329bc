"""What reconciliation needs from a replica, as a protocol: its journal, its status, or that it cannot be asked.

How a replica is spoken to is the adapter's business (`http_journal.py`).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from gateway.ids import PoolId, ReplicaId, RequestId

__all__ = [
    "JournalPage",
    "JournalReader",
    "JournalRecord",
    "NoJournal",
    "ReplicaRef",
    "ReplicaStatus",
    "ReplicaUnreachable",
    "UnreadableRecord",
]


class ReplicaUnreachable(Exception):
    """The replica did not answer; it may again."""


class NoJournal(Exception):
    """The engine keeps no journal: it is not one of ours."""


@dataclass(frozen=True, slots=True)
class ReplicaRef:
    replica_id: ReplicaId
    pool_id: PoolId
    url: str | None
    is_ours: bool = True
    """An engine of our own. Others keep no journal, and must never be shown the key that ours take."""
    stopped_at: datetime | None = None
    """When its supervisor ended it for good: nothing is at its address, and no later request was there."""
    journal_dir: str | None = None
    """Where it journals, as its own machine names it."""


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    epoch: str
    request_ids: frozenset[RequestId]
    """Gateway request ids that the replica works on right now."""
    is_draining: bool = False
    """It waits for the reader of its journal before it exits."""


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One record of an attempt. Later records of the same attempt include what earlier ones said."""

    kind: Literal["start", "progress", "end"]
    request_id: RequestId
    attempt: int
    epoch: str
    at: datetime
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    overrun_tokens: int = 0
    resumed_from: int | None = None
    finish_reason: str | None = None
    queue_ms: int | None = None
    ttft_ms: int | None = None
    e2e_ms: int | None = None


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A document in a journal that is no record: for a person to look at."""

    digest: str
    shown: str
    error: str


@dataclass(frozen=True, slots=True)
class JournalPage:
    records: tuple[JournalRecord, ...]
    cursor: str
    is_complete: bool
    """Nothing was in the journal beyond this page when it was read."""
    unreadable: tuple[UnreadableRecord, ...] = ()


class JournalReader(Protocol):
    async def status(self, replica: ReplicaRef) -> ReplicaStatus:
        """Raises ReplicaUnreachable or NoJournal."""
        ...

    async def read(self, replica: ReplicaRef, after: str | None, limit: int) -> JournalPage:
        """Raises ReplicaUnreachable or NoJournal."""
        ...
