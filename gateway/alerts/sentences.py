"""What an episode is called in one sentence, for people. Pure.

Of its figures only those that the source is sure to give are named; a name that is missing is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ["sentence_of"]

Values = Mapping[str, Any]


def sentence_of(source: str, values: Values, *, is_over: bool) -> str:
    """Without a full stop, as subjects and headings have none."""
    said = _SENTENCES[source](values) if source in _SENTENCES else source
    return f"Over: {said}" if is_over else said


def _burn(values: Values) -> str:
    what = {"availability": "availability", "ttft": "time to first token", "tpot": "time per output token"}
    rate, left = values["burn"].get("1h"), values["budget_left"]
    said = (
        f"Error budget for the {what[values['sli']]} of {values['model'] or 'unrecognised names'} is burning"
    )
    said += f" {rate:.1f} times too fast" if rate is not None and rate > 1 else ""
    if left is None:
        return said
    return f"{said}, {left:.0%} left" if left > 0 else f"{said}, nothing left"


_SENTENCES: Final[Mapping[str, Callable[[Values], str]]] = {
    "slo.burn_rate": _burn,
    "pool.queue_high": lambda v: (
        f"Pool {v['pool']}: {v['waiting_per_replica']} requests per replica are waiting"
    ),
    "pool.kv_high": lambda v: f"Pool {v['pool']}: KV memory is {v['kv_usage']:.0%} full",
    "pool.latency_high": lambda v: (
        f"Pool {v['pool']}: one answer in a hundred takes over {v['e2e_p99_s']:.0f} s"
    ),
    "pool.preemptions_high": lambda v: (
        f"Pool {v['pool']}: {v['preemptions']} requests were preempted in five minutes"
    ),
    "replica.down": lambda v: f"Replica {v['replica_id']} of pool {v['pool']} is down",
    "replica.flapping": lambda v: (
        f"Replica {v['replica_id']} of pool {v['pool']} has crashed {v['restarts']} times in a row"
    ),
    "ledger.drift": lambda v: f"The ledger's books differ by {v['difference']}",
    "export.failed": lambda v: f"Export {v['export_id']} ({v['format']}, from {v['period_start']}) failed",
    "key.expiring": lambda v: f"API key {v['name']} is about to expire",
    "webhook.failing": lambda v: f"Webhook endpoint {v['name']} takes nothing",
}
