"""The table of formats."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.exports.csv import CSV
from gateway.exports.focus import FOCUS
from gateway.exports.formats import Format
from gateway.exports.jsonl import JSONL
from gateway.exports.parquet import PARQUET
from gateway.exports.stripe import STRIPE
from gateway.exports.types import FormatName

__all__ = ["formats"]


def formats() -> Mapping[FormatName, Format]:
    return {"csv": CSV, "jsonl": JSONL, "parquet": PARQUET, "focus": FOCUS, "stripe": STRIPE}
