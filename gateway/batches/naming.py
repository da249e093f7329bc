"""Ids that follow from what they are for: whoever does the work again, after a crash, finds the same ones."""

from __future__ import annotations

import hashlib
from typing import Literal

from gateway.ids import RequestId

__all__ = ["answer_id", "request_id", "result_file_id"]

HEX_CHARS = 32


def request_id(batch_id: str, line: int, run: int) -> RequestId:
    """The request that a line is run as. The ledger lets each be charged once, so two workers cannot both charge it;
    `run` grows only when an earlier one has ended in an error that nobody pays for."""
    return RequestId(f"req_{_digest('request', batch_id, line, run)}")


def answer_id(batch_id: str, line: int) -> str:
    return f"batch_req_{_digest('answer', batch_id, line)}"


def result_file_id(batch_id: str, kind: Literal["output", "error"]) -> str:
    return f"file-{_digest(kind, batch_id)}"


def _digest(*parts: str | int) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:HEX_CHARS]
