"""What is kept and what goes is decided for every table, and the times are in the right order."""

import subprocess
import sys
from pathlib import Path

import pytest

import gateway.alerts.models
import gateway.audit.models
import gateway.exports.models
import gateway.idempotency.models
import gateway.ledger.models
import gateway.pool.models
import gateway.routing.models
import gateway.sessions.models
import gateway.slo.models
import gateway.tenancy.models  # noqa: F401  (each import registers its tables)
from gateway.db import Base
from gateway.ledger.closing import CLOSE_AFTER
from gateway.ledger.horizon import EVIDENCE_AGE_MAX, GUARD_KEPT, JOURNAL_KEPT
from gateway.retention.policy import HANDLING, JOURNAL_ROWS_KEPT, MINUTES_KEPT, REFUSALS_KEPT, Handling

ROOT = Path(__file__).resolve().parents[3]
NAMING_TENANTS = sorted(table.name for table in Base.metadata.sorted_tables if "tenant_id" in table.columns)


def test_every_table_that_names_a_tenant_says_what_a_deletion_does_to_it() -> None:
    missing = set(NAMING_TENANTS) - HANDLING.keys()
    assert not missing, f"decide in gateway/retention/policy.py and docs/retention.md: {sorted(missing)}"
    assert set(HANDLING) <= set(NAMING_TENANTS)


def test_what_refers_to_others_is_deleted_first() -> None:
    deleted = [name for name, handling in HANDLING.items() if handling is Handling.DELETED]
    for number, name in enumerate(deleted):
        for key in Base.metadata.tables[name].foreign_keys:
            assert key.column.table.name not in deleted[:number], f"{name} refers to {key.column.table.name}"


def test_nothing_that_stays_refers_to_what_goes() -> None:
    for name, handling in HANDLING.items():
        if handling is not Handling.DELETED:
            kept = Base.metadata.tables[name]
            referred = {key.column.table.name for key in kept.foreign_keys}
            assert not [one for one in referred if HANDLING.get(one) is Handling.DELETED], name


def test_times_are_in_order() -> None:
    assert JOURNAL_KEPT < JOURNAL_ROWS_KEPT < EVIDENCE_AGE_MAX < GUARD_KEPT < MINUTES_KEPT
    assert MINUTES_KEPT.days > 31 + CLOSE_AFTER.days
    assert REFUSALS_KEPT.days > 30


@pytest.mark.parametrize("name", NAMING_TENANTS)
def test_the_documentation_has_a_row_for_each(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs" / "retention.md").read_text(encoding="utf-8")


def test_the_commands_know_every_table_by_themselves() -> None:
    """In a process of their own, where no test and no gateway has imported the models for them."""
    script = (
        "import gateway.retention.commands; from gateway.db import Base; from gateway.retention.policy import HANDLING;"
        " print(sorted(HANDLING.keys() - Base.metadata.tables.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
