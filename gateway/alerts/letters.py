"""Records in words, for people: a subject and a plain text. Pure; it does not know how letters travel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gateway.alerts.types import Record
from gateway.money import format_usd

__all__ = ["Letter", "invitation", "letter_of", "new_password"]

SUBJECT_CHARS_MAX = 200


@dataclass(frozen=True, slots=True)
class Letter:
    subject: str
    text: str


def letter_of(record: Record) -> Letter:
    if record.type in ("budget.threshold_reached", "budget.exhausted"):
        return _spend(record)
    summary = record.payload.get("summary")
    facts = "\n".join(f"{name}: {value}" for name, value in record.payload.items() if name != "summary")
    subject = " ".join(str(summary).split())[:SUBJECT_CHARS_MAX] if summary else record.type
    return Letter(subject, facts + "\n")


def invitation(link: str, ends_at: datetime) -> Letter:
    lines = [
        "You are invited to a Tollway console. Open this link to choose a password:",
        "",
        link,
        "",
        f"{_good_once(ends_at)} If you do not know why it came, do nothing.",
    ]
    return Letter("Your invitation to Tollway", "\n".join(lines) + "\n")


def new_password(code: str, ends_at: datetime) -> Letter:
    lines = [
        "Somebody, hopefully you, asked for a new password for a Tollway console. If it was you, enter this code there:",
        "",
        code,
        "",
        f"{_good_once(ends_at)} Give it to nobody: who has it can sign in as",
        "you. If you asked for nothing, do nothing.",
    ]
    return Letter("A new password for Tollway", "\n".join(lines) + "\n")


def _good_once(ends_at: datetime) -> str:
    return f"It is good once, until {ends_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC."


def _spend(record: Record) -> Letter:
    facts = record.payload
    scope = _scope(facts)
    spent, period = format_usd(facts["spent_nanousd"]), _period(facts["period"])
    limit = facts["limit_nanousd"]
    if record.type == "budget.exhausted":
        subject = f"Budget used up: {scope}"
        ending = (
            "Requests are refused until the limit is raised or a new period begins."
            if facts["is_hard"]
            else "The budget is soft: no request is refused."
        )
    else:
        subject = f"Spend of {scope} reached {_threshold(facts)}"
        ending = "This alert comes once per period, and again when its threshold is raised."
    lines = [
        f"{scope[0].upper()}{scope[1:]} spent {spent} {period}.",
        "",
        f"Threshold: {_threshold(facts)}",
        f"Limit: {format_usd(limit) if limit is not None else 'none'}",
        f"Seen: {record.occurred_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
        "",
        ending,
    ]
    return Letter(subject, "\n".join(lines) + "\n")


def _scope(facts: Mapping[str, Any]) -> str:
    match facts["scope"]:
        case "organization":
            return "the organization"
        case "key":
            return f"API key {facts['key_id']} of project {facts['project_id']}"
        case _:
            return f"project {facts['project_id']}"


def _threshold(facts: Mapping[str, Any]) -> str:
    amount = format_usd(facts["threshold_nanousd"])
    percent = facts["threshold_percent"]
    return amount if percent is None else f"{amount} ({percent} % of its limit)"


def _period(period: Mapping[str, Any]) -> str:
    if period["kind"] == "prepaid":
        return "of what was paid in"
    first = datetime.fromtimestamp(period["starts_at"], UTC)
    return f"in the {period['kind']} period {period['id']}, which began {first:%Y-%m-%d %H:%M} UTC"
