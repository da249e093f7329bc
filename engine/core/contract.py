"""The contract between the core and a runner: what one step computes, and what comes back.

The core (`scheduler`, `loop`) makes a `ScheduleOutput` per step; a runner (CPU or GPU) executes it and
answers with a `StepResult`. The message is a *diff*: a request owns a stable row of the runner's tables
from `RowInit` until the row is named in `freed_rows`, and only changes are sent. Neither side shares
mutable state with the other. Knows no tensors and no text.

Time line of one row: `RowInit` (all token ids known so far, all blocks held so far) → per step one
`RowWork` and perhaps `BlockAppend`s → `freed_rows`. A row number may be given to another request in the
very schedule that frees it: a runner applies `freed_rows`, then `new_rows`, then `appends`, then the work.

Token ids live in the runner's own table `tokens[row, position]`. A step computes positions
`start … start + num_tokens - 1` of a row, whatever mix of prompt and generated tokens that is, so there
is no prefill and no decode phase. A sampled token is written by the runner at position
`start + num_tokens`; thus the core may schedule the next step of a row before it has seen the token
(asynchronous scheduling), and no token id travels back to the device.

Every diff concerns a row that has work in the same schedule (or frees one), so a step that fails as a
whole leaves no other row's tables behind. A row may read pages that another row of the same step fills
(two requests with the same prompt that arrive together): in each layer all keys and values of the step
are written before any are read.

Lifetime of blocks: the core keeps a block out of the free list until every launched step that could
touch it has been collected. A runner never frees anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import msgspec

from engine.messages import SamplingParams, TokenLogprobs


@dataclass(frozen=True, slots=True)
class KVGroup:
    """Layers that share one block table. All groups have the same number of layers (pages are equal)."""

    layer_ids: tuple[int, ...]
    window: int | None
    """Sliding attention: a query at p sees keys p - window + 1 … p. None: full attention."""


@dataclass(frozen=True, slots=True)
class KVLayout:
    """The page pool: `num_blocks` pages of `block_size` tokens, shared by all groups."""

    block_size: int
    num_blocks: int
    groups: tuple[KVGroup, ...]
    num_host_blocks: int = 0
    """Pages of host memory beside the pool."""


@dataclass(frozen=True, slots=True)
class RowInit:
    """A request takes a row: at admission, and again after preemption (with its outputs so far)."""

    row: int
    token_ids: Sequence[int]
    """Prompt, then outputs known so far."""
    num_prompt_tokens: int
    sampling: SamplingParams
    block_ids: tuple[tuple[int, ...], ...]
    """Per group, the pages held now, from position 0. Positions behind a window hold -1."""


@dataclass(frozen=True, slots=True)
class BlockAppend:
    """Pages added at the end of one group's table of one row."""

    row: int
    group: int
    block_ids: tuple[int, ...]


class PageMove(msgspec.Struct, frozen=True, gc=False):
    """One page of the pool and one of host memory, between which its whole content is copied."""

    page: int
    host_page: int


class RowWork(msgspec.Struct, frozen=True, gc=False):
    """Compute `num_tokens` tokens of a row from position `start`; sample the next one if `samples`.

    A struct and not a dataclass since there is one per row and step: ten times cheaper to make.
    """

    row: int
    start: int
    num_tokens: int
    samples: bool


@dataclass(frozen=True, slots=True)
class ScheduleOutput:
    """One step. `work` has each row at most once, in ascending order of num_tokens then row."""

    step: int
    work: tuple[RowWork, ...]
    freed_rows: tuple[int, ...] = ()
    new_rows: tuple[RowInit, ...] = ()
    appends: tuple[BlockAppend, ...] = ()
    offloads: tuple[PageMove, ...] = ()
    """From the pool to the host, in this order and before anything else of the step touches a page."""
    restores: tuple[PageMove, ...] = ()
    """From the host to the pool, after the offloads and before the work."""

    @property
    def num_tokens(self) -> int:
        return sum(item.num_tokens for item in self.work)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step produced. Every sampled row is in exactly one of `tokens`, `failures` and `embeddings`."""

    step: int
    tokens: dict[int, int]
    """row → sampled token id."""
    failures: dict[int, str] = field(default_factory=dict)
    """row → why this row alone failed (its parameters, its grammar). The others are unharmed; what the
    step computed for this row is not used again, so it may be anything."""
    logprobs: dict[int, TokenLogprobs] = field(default_factory=dict)
    prompt_logprobs: dict[int, list[TokenLogprobs]] = field(default_factory=dict)
    """row → of the prompt's tokens at `start + 1`, `start + 2`, … as far as the step's work and the prompt reach, for
    rows whose sampling parameters ask for it."""
    refused: frozenset[int] = frozenset()
    """Failed rows whose own grammar leaves nothing to choose."""
    embeddings: dict[int, bytes] = field(default_factory=dict)
    """row → [hidden size] fp32, little-endian, for rows whose sampling parameters ask for pooling."""
    graph_hits: int = 0
    """Captured graphs that the step replayed."""
    graph_misses: int = 0
    """Parts of it that were launched kernel by kernel, for want of a graph. A runner without graphs has neither."""


HandleT = TypeVar("HandleT")


class Runner(Protocol, Generic[HandleT]):
    """Executes steps in the order of launch. At most two are in flight."""

    def launch(self, schedule: ScheduleOutput) -> HandleT:
        """Start the step and return at once. Errors of the step surface in `collect`."""
        ...

    def collect(self, handle: HandleT) -> StepResult:
        """Wait for the step. Raises `BatchError` when the whole batch failed but the runner lives on;
        anything else means that the runner is lost (the core process exits)."""
        ...


class BatchError(Exception):
    """The step failed as a whole (a host exception, out of memory); its rows must be failed, the engine
    goes on."""
