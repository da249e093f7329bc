"""The checklist: every check in order, as a table and as JSON, and the exit status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gateway.checks import engines, security, service, watching, workloads
from gateway.checks.types import Facts, Finding, Verdict

__all__ = ["as_json", "as_table", "examine", "exit_status"]

CHECKS = (*service.CHECKS, *engines.CHECKS, *watching.CHECKS, *security.CHECKS, *workloads.CHECKS)
_STYLES = {Verdict.PASS: "green", Verdict.WARN: "yellow", Verdict.FAIL: "bold red", Verdict.SKIP: "dim"}


def examine(facts: Facts) -> list[Finding]:
    return [check(facts) for check in CHECKS]


def exit_status(findings: Sequence[Finding], *, strict: bool) -> int:
    """1 if a line fails; `strict`: or warns."""
    bad = {Verdict.FAIL, Verdict.WARN} if strict else {Verdict.FAIL}
    return int(any(finding.verdict in bad for finding in findings))


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "format": "tollway-check/1",
        "counts": _counts(findings),
        "checks": [
            {"name": f.name, "verdict": f.verdict.value, "found": f.found, "advice": f.advice}
            for f in findings
        ],
    }


def as_table(findings: Sequence[Finding]) -> RenderableType:
    table = Table(box=None, pad_edge=False)
    for head in ("", "check", "found", "what to do"):
        table.add_column(head)
    for finding in findings:
        verdict = Text(finding.verdict.value, style=_STYLES[finding.verdict])
        table.add_row(verdict, Text(finding.name), Text(finding.found), Text(finding.advice))
    return Group(table, Text(", ".join(f"{count} {name}" for name, count in _counts(findings).items())))


def _counts(findings: Sequence[Finding]) -> dict[str, int]:
    counted = Counter(finding.verdict for finding in findings)
    return {verdict.value: counted[verdict] for verdict in Verdict}
