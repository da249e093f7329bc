"""Every format that may be asked for can be written."""

from __future__ import annotations

from gateway.exports.registry import formats
from gateway.exports.types import FORMATS


def test_every_name_has_a_format() -> None:
    assert tuple(formats()) == FORMATS
    assert {name for name, format in formats().items() if format.has_parts} == {"csv", "jsonl", "parquet"}
