"""An answer that several engines worked on: who is paid for which of its tokens. Pure.

An attempt that goes on with another's answer has read its output as part of a prompt, so from one attempt to the next
the journalled prompt grows by what was passed on before. The caller pays the prompt once, to the first; the output to
those that made what was passed on. What was computed twice nobody pays.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.ids import ReplicaId
from gateway.ledger.types import AttemptRecord

__all__ = ["Produced", "chain_records"]


@dataclass(frozen=True, slots=True)
class Produced:
    """What one attempt did, by its engine's own record."""

    attempt: int
    replica_id: ReplicaId | None
    epoch: str | None
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    overrun_tokens: int = 0
    finish_reason: str | None = None


def chain_records(chain: Sequence[Produced]) -> tuple[AttemptRecord, ...]:
    """In the order in which they worked. An engine that died may have journalled fewer tokens than were passed on: what
    it did not write down is not charged."""
    records = []
    for place, one in enumerate(chain):
        passed_on = one.completion_tokens
        if place + 1 < len(chain):
            passed_on = min(passed_on, max(0, chain[place + 1].prompt_tokens - one.prompt_tokens))
        is_first = place == 0
        is_paid_whole = is_first and passed_on == one.completion_tokens
        records.append(
            AttemptRecord(
                attempt=one.attempt,
                replica_id=one.replica_id,
                engine_epoch=one.epoch,
                prompt_tokens=one.prompt_tokens,
                cached_tokens=one.cached_tokens,
                completion_tokens=one.completion_tokens,
                billed_prompt_tokens=one.prompt_tokens if is_first else 0,
                billed_completion_tokens=passed_on,
                overrun_tokens=one.overrun_tokens,
                unbilled_reason=None if is_paid_whole else "retry" if is_first else "resume_prefill",
                resumed_from=None if is_first else chain[place - 1].attempt,
                finish_reason=one.finish_reason,
            )
        )
    return tuple(records)
