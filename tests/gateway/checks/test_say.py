"""A line stays a line."""

from __future__ import annotations

from gateway.checks.say import failed, first_few, passed, skipped, warned
from gateway.checks.types import Verdict


def test_the_first_few_and_how_many_more() -> None:
    assert first_few(["a", "b"]) == "a, b"
    assert first_few(["a", "b", "c", "d"]) == "a, b, c, d"
    assert first_few(["a", "b", "c", "d", "e", "f"]) == "a, b, c, d and 2 more"


def test_verdicts() -> None:
    findings = (passed("n", "f"), warned("n", "f", "a"), failed("n", "f", "a"), skipped("n", "f"))
    assert [finding.verdict for finding in findings] == [
        Verdict.PASS,
        Verdict.WARN,
        Verdict.FAIL,
        Verdict.SKIP,
    ]
    assert [finding.advice for finding in findings] == ["", "a", "a", ""]
