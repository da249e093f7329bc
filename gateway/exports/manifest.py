"""The manifest: what an export holds, in numbers that can be checked against its files and against the ledger.

It is written last, so whoever finds one finds all of its files. It names no time and no machine: the same export has the
same manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from gateway.exports.columns import instant
from gateway.exports.types import ExportMismatch, ExportSpec, PartFile, Tally

__all__ = ["VERSION", "manifest_bytes", "require_equal"]

VERSION = 1
"""Of the files: raised when the same events would give other bytes."""


def manifest_bytes(
    spec: ExportSpec, parts: Sequence[PartFile], tally: Tally, notes: Mapping[str, Any]
) -> bytes:
    fields = sorted({name for sums in tally.values() for name in sums})
    document = {
        "version": VERSION,
        "format": spec.format,
        "period": {"start": instant(spec.period.starts_at), "end": instant(spec.period.ends_at)},
        "project_id": spec.tenant_id,
        "rows": sum(part.rows for part in parts),
        "totals": {name: sum(sums[name] for sums in tally.values()) for name in fields},
        "projects": {tenant: tally[tenant] for tenant in sorted(tally)},
        "files": [asdict(part) for part in parts],
        **notes,
    }
    return orjson.dumps(
        document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    )


def require_equal(written: Tally, ledger: Tally, fields: Sequence[str]) -> None:
    """Raises ExportMismatch unless the rows add up to the ledger, tenant by tenant."""
    for tenant in sorted(written.keys() | ledger.keys()):
        ours, theirs = written.get(tenant, {}), ledger.get(tenant, {})
        for name in fields:
            if ours.get(name, 0) != theirs.get(name, 0):
                raise ExportMismatch(
                    f"{tenant}: the files hold {ours.get(name, 0)} {name}, the ledger {theirs.get(name, 0)}"
                )
