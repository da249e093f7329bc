"""Every format that may be asked for can be written."""

from __future__ import annotations

from gateway.exports.registry import formats
from gateway.exports.types import FORMATS


def test_every_name_has_a_format() -> None:
    assert set(formats()) <= set(FORMATS)
    assert len({format.suffix for format in formats().values()}) == len(formats())
