"""One sequence on its way through the core: what is known of it, what is computed, which pages it holds.

Created by `scheduler.Scheduler.add`, changed by the scheduler, `kv` and `output`, never sent anywhere.
There is no prefill and no decode phase: `num_computed` chases `num_tokens`. Knows no policy.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.messages import AddRequest, SamplingParams

if TYPE_CHECKING:
    from engine.core.fairness import Account
    from engine.core.shares import Holding

CLASSES = ("interactive", "batch")
"""Request classes, the one that goes first first."""


class Phase(enum.Enum):
    WAITING = enum.auto()
    """Has no row: just arrived, or preempted."""
    RUNNING = enum.auto()
    FINISHED = enum.auto()
    """Its terminal output is made. It may still hold pages that a launched step touches."""


@dataclass(slots=True, eq=False)
class Request:
    """Identity and limits first, then the counters in the order in which a step moves them."""

    id: str
    worker: int
    sequence: int
    """In which order the core took them up; breaks a tie."""
    arrival_s: float
    """Before it was taken up, if it was held elsewhere until it could be."""
    class_rank: int
    """Index in CLASSES."""
    fairness_id: str
    fairness_weight: float
    cache_salt: bytes
    sampling: SamplingParams
    end_ids: frozenset[int]
    """Tokens that end the answer."""
    token_ids: list[int]
    """Prompt, then the outputs that the host has seen."""
    num_prompt_tokens: int
    max_total_tokens: int
    """Prompt plus the longest answer allowed."""
    deadline_s: float
    """When its first token is due: by its promise, else by the time after which it would be refused."""
    priority: int
    """Of the requests of its id, as the caller says; the smallest goes first. `fairness` lifts who waits longest."""
    tpot_s: float | None
    """Promised time between two tokens."""
    max_kv_fraction: float
    """Part of the pool that its id may hold."""

    num_tokens: int
    """Known tokens plus those sampled by launched steps that the host has not seen yet."""
    num_computed: int = 0
    """Positions whose keys and values are computed by the steps launched so far."""
    phase: Phase = Phase.WAITING
    row: int = -1
    num_steps_in_flight: int = 0
    """Launched, not yet collected steps that touch this request's pages."""

    tables: list[list[int]] = field(default_factory=list)
    """Per KV group, the pages from position 0; -1 where a page fell behind the window."""
    capacity: int = 0
    """Positions that the tables of all groups cover."""
    first_held: list[int] = field(default_factory=list)
    """Per KV group, index of the first page that is not behind the window."""
    release_at: int = 0
    """Query position from which on another page is behind a window."""
    page_digests: list[bytes] = field(default_factory=list)
    """Chained digests of the full pages of `token_ids`."""
    num_published: int = 0
    """Pages of the present tables that are in the prefix cache or were offered to it."""
    publish_at: int = 0
    """Number of tokens, known and computed, that fills the next page to publish."""

    num_preempted: int = 0
    """How often it lost its row."""
    lost_row_s: float | None = None
    """When the line first saw it without the row that it had."""
    num_kept: int = 0
    """Tokens computed when it was preempted, if their pages are to be kept for it."""
    kept: list[list[int]] = field(default_factory=list)
    """Per KV group, the host pages that hold them, as in `tables`."""

    account: Account | None = field(default=None, repr=False)
    output_cost: float = 0.0
    """Virtual tokens that an output token costs its account."""
    holding: Holding | None = field(default=None, repr=False)
    """What its id holds; None where nobody counts."""
    blocked_s: float | None = None
    """Since when it has been first in line without fitting, so that others may have gone before it."""
    pages_wanted: int = 0
    """Free pages that the last failed admission asked for; no use to try again with fewer."""
    num_cached_tokens: int | None = None
    """Of the tokens known at the first admission, those found in the prefix cache; None before it."""
    queue_ms: float | None = None
    num_prompt_logprobs: int = 0
    """Prompt tokens whose log-probabilities were reported."""
    has_reported: bool = False
    """An output was emitted already."""

    @classmethod
    def from_message(
        cls,
        message: AddRequest,
        *,
        sequence: int,
        now: float,
        eos_token_ids: tuple[int, ...],
        patience_s: float = 60.0,
    ) -> Request:
        """`patience_s`: the deadline of a request without a promise."""
        sampling = message.sampling
        ends = set(sampling.stop_token_ids)
        if not sampling.ignore_eos:
            ends.update(eos_token_ids)
        num_prompt_tokens = len(message.prompt_token_ids)
        return cls(
            id=message.request_id,
            worker=message.worker,
            sequence=sequence,
            arrival_s=now,
            class_rank=CLASSES.index(message.request_class),
            fairness_id=message.fairness_id,
            fairness_weight=message.fairness_weight,
            cache_salt=message.cache_salt,
            sampling=sampling,
            end_ids=frozenset(ends),
            token_ids=[*message.prompt_token_ids, *message.output_token_ids],
            num_prompt_tokens=num_prompt_tokens,
            max_total_tokens=num_prompt_tokens + sampling.max_tokens,
            deadline_s=now + (patience_s if message.ttft_ms is None else message.ttft_ms / 1e3),
            priority=message.priority,
            tpot_s=None if message.tpot_ms is None else message.tpot_ms / 1e3,
            max_kv_fraction=message.max_kv_fraction,
            num_tokens=num_prompt_tokens + len(message.output_token_ids),
        )

    @property
    def arrival(self) -> tuple[float, int]:
        """Who came first is first, wherever requests are in an order; no two have the same."""
        return self.arrival_s, self.sequence

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def num_unseen_tokens(self) -> int:
        """Sampled by launched steps, not yet on the host."""
        return self.num_tokens - len(self.token_ids)

    @property
    def num_pending(self) -> int:
        """Tokens to compute before the next one can be sampled; 0 when the last allowed one was."""
        if self.num_tokens >= self.max_total_tokens:
            return 0
        return self.num_tokens - self.num_computed

    def held_pages(self) -> Iterator[list[int]]:
        """Of each KV group, the pages that are not behind its window."""
        for table, first in zip(self.tables, self.first_held, strict=True):
            yield table[first:]

    @property
    def wants_prompt_logprobs(self) -> bool:
        """Every position of the prompt must be computed, also those that the cache knows."""
        wanted = self.sampling.num_prompt_logprobs is not None
        return wanted and self.num_prompt_logprobs < self.num_prompt_tokens - 1

    @property
    def is_mean(self) -> bool:
        """Every position's hidden state counts, in one stay in a row."""
        return self.sampling.pooling == "mean"

    @property
    def was_admitted(self) -> bool:
        return self.num_cached_tokens is not None
