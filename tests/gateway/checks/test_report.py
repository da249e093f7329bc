"""The checklist as a whole: order, table, JSON, exit status."""

from __future__ import annotations

import io
import json

from rich.console import Console

from gateway.checks.report import CHECKS, as_json, as_table, examine, exit_status
from gateway.checks.say import failed, passed, skipped, warned
from gateway.checks.types import Facts
from gateway.settings import Settings

LINES = [
    passed("a", "good"),
    warned("b", "[so] so", "look"),
    failed("c", "bad", "mend it"),
    skipped("d", "unknown"),
]


def test_every_check_says_something_of_an_empty_installation() -> None:
    findings = examine(Facts(settings=Settings()))
    assert len(findings) == len(CHECKS) == len({finding.name for finding in findings})
    assert all(finding.found for finding in findings)
    assert all(finding.advice for finding in findings if finding.verdict.value in ("warn", "fail"))


def test_exit_status() -> None:
    good, warning, bad, skip = ([line] for line in LINES)
    assert [exit_status(lines, strict=False) for lines in (good, warning, bad, skip)] == [0, 0, 1, 0]
    assert [exit_status(lines, strict=True) for lines in (good, warning, bad, skip)] == [0, 1, 1, 0]


def test_json_and_table() -> None:
    document = json.loads(json.dumps(as_json(LINES)))
    assert document["counts"] == {"pass": 1, "warn": 1, "fail": 1, "skip": 1}
    assert document["checks"][2] == {"name": "c", "verdict": "fail", "found": "bad", "advice": "mend it"}
    out = io.StringIO()
    Console(file=out, width=120).print(as_table(LINES))
    assert "[so] so" in out.getvalue(), "what is found is text and no markup"
    assert "1 pass, 1 warn, 1 fail, 1 skip" in out.getvalue()
