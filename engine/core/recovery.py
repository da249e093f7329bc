"""After a failed step: what was computed in it, or on it, is forgotten, and who shares it starts over.

Called through `scheduler.spoil`. Knows no order and no budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from engine.core.kv import KVManager
from engine.core.request import Request

Positions = Sequence[tuple[Request, int]]
"""(request, first position that is worthless)."""


def spoil(
    failed: Positions,
    holders: Iterable[Request],
    kv: KVManager,
    start_over: Callable[[Request], None],
    lost: Iterable[int] = (),
) -> None:
    """`holders`: every request that holds pages. Calls `start_over` for those that hold spoiled ones without
    having failed themselves. `lost`: pages whose content did not arrive."""
    spoiled = set(lost)
    for request, position in failed:
        spoiled |= kv.spoil(request, position)
    untouched = dict.fromkeys(holders)
    for request, _ in failed:
        untouched.pop(request, None)
    affected = _next_affected(untouched, spoiled, kv)
    while affected is not None:
        request, position = affected
        del untouched[request]
        spoiled |= kv.spoil(request, position)
        start_over(request)
        affected = _next_affected(untouched, spoiled, kv)


def _next_affected(
    holders: Iterable[Request], spoiled: set[int], kv: KVManager
) -> tuple[Request, int] | None:
    for request in holders:
        position = kv.first_of(request, spoiled)
        if position is not None:
            return request, position
    return None
