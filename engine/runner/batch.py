"""A step's work list and the row tables → the tensors of one forward pass.

Only the (row, start, num_tokens) triples come from the host; everything per token is expanded by tensor
operations on the tables' device, the same on a CPU and a GPU. Knows no model and no sampling parameters.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from engine.core.contract import RowWork
from engine.layers.batch import ForwardBatch, GroupBatch
from engine.runner.tables import RowTables
from kernels.host_plan import HostPlan, PageShape, build_host_plans, write_runs
from kernels.invariant_attention import InvariantPlan, build_invariant_plans


@dataclass(frozen=True, slots=True)
class StepInputs:
    """A forward batch, and which rows' next tokens it will give."""

    forward: ForwardBatch
    sampled_rows: tuple[int, ...]
    """[S] rows in the order of `forward.sampled`."""
    sampled_lens: tuple[int, ...]
    """[S] tokens of each such row after this step: the sampled one goes to this position."""


def expand(
    work: Sequence[RowWork],
    tables: RowTables,
    pages: PageShape | None = None,
    *,
    batch_invariant: bool = False,
) -> StepInputs:
    """Rows in the order of `work`, each one's tokens side by side. With `pages`, the shape of a layer's pages on
    a CPU, the groups come with their work lists."""
    device = tables.tokens.device
    ends = [item.start + item.num_tokens for item in work]
    assert max(ends) <= tables.max_model_len, "a step reaches past the longest sequence"
    rows, starts, counts = torch.tensor(
        [[item.row for item in work], [item.start for item in work], [item.num_tokens for item in work]],
        device=device,
    )
    num_tokens = sum(item.num_tokens for item in work)
    first_tokens = list(itertools.accumulate((item.num_tokens for item in work), initial=0))
    query_start = torch.tensor(first_tokens, dtype=torch.int32, device=device)
    if num_tokens == len(work):
        token_rows, positions = rows, starts
    else:
        # The owner of token t is the row whose queries contain t; its position counts from the row's start.
        owner = torch.repeat_interleave(counts, output_size=num_tokens)
        token_rows = rows[owner]
        positions = torch.arange(num_tokens, device=device) + (starts - query_start[:-1])[owner]
    groups = _groups(tables, rows, token_rows, positions, max(ends))
    if pages is not None:
        build = build_invariant_plans if batch_invariant else build_host_plans
        groups = _with_plans(groups, pages, first_tokens, ends, tables.windows, build)
    return StepInputs(
        forward=ForwardBatch(
            token_ids=tables.tokens[token_rows, positions].long(),
            positions=positions,
            query_start=query_start,
            seq_lens=(starts + counts).to(torch.int32),
            sampled=_sampled(work, device),
            groups=groups,
        ),
        sampled_rows=tuple(item.row for item in work if item.samples),
        sampled_lens=tuple(item.start + item.num_tokens for item in work if item.samples),
    )


def _sampled(work: Sequence[RowWork], device: torch.device) -> torch.Tensor:
    """Index of the last token of each row that samples."""
    last, indices = -1, []
    for item in work:
        last += item.num_tokens
        if item.samples:
            indices.append(last)
    return torch.tensor(indices, dtype=torch.int64, device=device)


def _groups(
    tables: RowTables, rows: torch.Tensor, token_rows: torch.Tensor, positions: torch.Tensor, longest: int
) -> tuple[GroupBatch, ...]:
    block = tables.block_size
    spans = -(-longest // block)
    block_tables = tables.blocks[:, rows, :spans]
    pages = tables.blocks[:, token_rows, positions // block].long()
    slots = torch.where(pages < 0, -1, pages * block + positions % block)
    return tuple(
        GroupBatch(block_table=table, slots=slot) for table, slot in zip(block_tables, slots, strict=True)
    )


def _with_plans(
    groups: tuple[GroupBatch, ...],
    pages: PageShape,
    query_start: Sequence[int],
    seq_lens: Sequence[int],
    windows: Sequence[int | None],
    build: Callable[..., Sequence[HostPlan | InvariantPlan]],
) -> tuple[GroupBatch, ...]:
    slots = torch.stack([group.slots for group in groups])
    runs = write_runs(pages, slots) if bool((slots >= 0).all()) else [None] * len(groups)
    block_tables = torch.stack([group.block_table for group in groups])
    plans = build(pages, block_tables, query_start, seq_lens, windows)
    return tuple(
        replace(group, plan=plan, runs=each) for group, plan, each in zip(groups, plans, runs, strict=True)
    )
