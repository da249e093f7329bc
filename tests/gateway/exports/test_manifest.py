"""The manifest's sums, and the comparison with the ledger's."""

from __future__ import annotations

import orjson
import pytest

from gateway.exports.manifest import manifest_bytes, require_equal
from gateway.exports.types import ExportMismatch, PartFile
from tests.gateway.exports.ledger import spec

TALLY = {"b": {"events": 2, "amount_nanousd": -3}, "a": {"events": 1, "amount_nanousd": 10}}


def test_totals_are_the_sums_over_tenants_and_files() -> None:
    parts = [PartFile("part-00001.csv", 1, 5, "x"), PartFile("part-00002.csv", 2, 6, "y")]
    manifest = orjson.loads(manifest_bytes(spec(), parts, TALLY, {"note": 1}))
    assert manifest["rows"] == 3
    assert manifest["totals"] == {"events": 3, "amount_nanousd": 7}
    assert manifest["projects"] == TALLY
    assert manifest["period"] == {
        "start": "2026-01-10T00:00:00.000000Z",
        "end": "2026-01-11T00:00:00.000000Z",
    }
    assert [file["sha256"] for file in manifest["files"]] == ["x", "y"]
    assert manifest["note"] == 1


def test_a_difference_names_tenant_and_field() -> None:
    require_equal(TALLY, TALLY, ("events", "amount_nanousd"))
    other = {**TALLY, "b": {"events": 2, "amount_nanousd": -4}}
    require_equal(other, TALLY, ("events",))
    with pytest.raises(ExportMismatch, match="b: the files hold -4 amount_nanousd, the ledger -3"):
        require_equal(other, TALLY, ("events", "amount_nanousd"))
    with pytest.raises(ExportMismatch, match="c: the files hold 0 events, the ledger 1"):
        require_equal(TALLY, {**TALLY, "c": {"events": 1}}, ("events",))


def test_manifest_is_checked_against_an_absent_tenant_too() -> None:
    with pytest.raises(ExportMismatch, match="a: the files hold 1 events, the ledger 0"):
        require_equal(TALLY, {"b": TALLY["b"]}, ("events",))
