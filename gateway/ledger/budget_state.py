"""How a budget stands in its running period, and in words what a change of it means for requests. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gateway.money import format_usd

__all__ = ["BudgetState", "consequence"]


@dataclass(frozen=True, slots=True)
class BudgetState:
    limit_nanousd: int
    is_hard: bool
    period_key: str
    starts_at: datetime | None
    ends_at: datetime | None
    """None for a prepaid budget, whose one period has no bounds."""
    held_nanousd: int = 0
    spent_nanousd: int = 0
    is_refusing: bool = False

    @property
    def remaining_nanousd(self) -> int:
        """Negative when the limit was lowered below what is taken, and for a soft budget that is over its limit."""
        return self.limit_nanousd - self.spent_nanousd - self.held_nanousd

    @property
    def is_exhausted(self) -> bool:
        """What is committed has reached the limit, or leaves too little of it for the requests that come."""
        return self.spent_nanousd >= self.limit_nanousd or self.is_refusing


def consequence(before: BudgetState | None, now: BudgetState) -> str | None:
    """What a new budget, a lowered limit or a hardened budget does to requests; None if it refuses nothing more
    than before."""
    is_stricter = before is None or now.limit_nanousd < before.limit_nanousd or (now.is_hard > before.is_hard)
    if not is_stricter:
        return None
    if not now.is_hard:
        return "The budget is soft: spend beyond the limit is counted and reported, no request is refused."
    if now.spent_nanousd >= now.limit_nanousd:
        until = f"{now.ends_at.isoformat()} or until " if now.ends_at is not None else ""
        return (
            f"{format_usd(now.spent_nanousd)} are spent already: every request is refused until {until}"
            "the limit is raised."
        )
    if now.remaining_nanousd <= 0:
        return (
            f"Requests in flight hold {format_usd(now.held_nanousd)} and will finish: new requests are refused "
            "until enough of it is given back."
        )
    return (
        f"{format_usd(now.remaining_nanousd)} are left: a request whose upper bound is above that is refused."
    )
