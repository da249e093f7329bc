"""Files, batches and their lines as values. Frozen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from gateway.ids import KeyId, TenantId
from gateway.wire import Usage

__all__ = [
    "ACTIVE_SQL",
    "BatchRow",
    "BatchState",
    "FileRow",
    "Lease",
    "LineError",
    "NewBatch",
    "Result",
    "blob_key",
]

BatchState = Literal[
    "validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"
]
ACTIVE_SQL = "('validating', 'in_progress', 'finalizing', 'cancelling')"
"""The states of a batch that has not ended."""


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file that is whole, has not expired and is not deleted."""

    tenant_id: TenantId
    id: str
    purpose: str
    filename: str
    bytes: int
    created_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class LineError:
    """Why an input file was refused. `line` counts from 1."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


@dataclass(frozen=True, slots=True)
class NewBatch:
    """What is known of a batch when it is made."""

    tenant_id: TenantId
    id: str
    key_id: KeyId
    endpoint: str
    input_file_id: str
    completion_window: str
    labels: Mapping[str, str] | None
    created_at: datetime
    expires_at: datetime
    output_expires_after_s: int | None


@dataclass(frozen=True, slots=True)
class BatchRow:
    tenant_id: TenantId
    id: str
    key_id: KeyId
    endpoint: str
    input_file_id: str
    completion_window: str
    labels: Mapping[str, str] | None
    model: str | None
    state: BatchState
    created_at: datetime
    expires_at: datetime
    in_progress_at: datetime | None
    finalizing_at: datetime | None
    completed_at: datetime | None
    failed_at: datetime | None
    expired_at: datetime | None
    cancelling_at: datetime | None
    cancelled_at: datetime | None
    output_file_id: str | None
    error_file_id: str | None
    output_expires_after_s: int | None
    errors: Sequence[Mapping[str, Any]] | None
    total: int
    completed: int
    failed: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on a batch. It is lost when somebody else gets the batch under a higher `epoch`."""

    batch: BatchRow
    epoch: int
    takeovers: int
    next_line: int
    """All lines before this one have their results; it begins at the byte `next_offset` of the input file."""
    next_offset: int


@dataclass(frozen=True, slots=True)
class Result:
    """What a line of the input became: a line of the output, or of the error file."""

    line: int
    is_error: bool
    content: str
    usage: Usage | None = None


def blob_key(tenant_id: str, file_id: str) -> str:
    return f"{tenant_id}/{file_id}"
