"""Short ways of writing a finding."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.checks.types import Finding, Verdict

__all__ = ["failed", "first_few", "passed", "skipped", "warned"]

_SHOWN = 4


def passed(name: str, found: str) -> Finding:
    return Finding(name, Verdict.PASS, found)


def warned(name: str, found: str, advice: str) -> Finding:
    return Finding(name, Verdict.WARN, found, advice)


def failed(name: str, found: str, advice: str) -> Finding:
    return Finding(name, Verdict.FAIL, found, advice)


def skipped(name: str, found: str, advice: str = "") -> Finding:
    return Finding(name, Verdict.SKIP, found, advice)


def first_few(names: Sequence[str]) -> str:
    """A line must stay a line in an installation of hundreds."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
