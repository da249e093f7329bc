"""Paged attention on the CPU whose answers do not depend on what else is in the step.

    out[t, h] = softmax_j(cap(scale · q[t, h] · k[j, g])) · v[j, g],   j in the window of t's position, g = h // G

Place in the path: runner, once per step and KV group → `build_invariant_plans`; `kernels/paged_attention.py` →
`invariant_attention` for CPU tensors with such a plan. A query belongs to the tile of `TILE` positions that its own
position lies in, at the place that its position says, and is multiplied with keys from a multiple of `KEYS` to a
multiple of `KEYS`. So every shape, and with it the order of every sum, follows from the position alone: not from the
chunk that the query came in, nor from other rows. Places of a tile without a query are zeros. Knows no model.
Bytes: as `kernels/host_attention.py`, and up to KEYS − 1 keys and TILE − 1 queries more a tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.host_plan import PageShape, run_matrix, runs_of
from kernels.reference import per_query_head

TILE = 8
KEYS = 64


@dataclass(frozen=True, slots=True)
class QueryTile:
    """`count` queries of a row, at places from `place` on."""

    first: int
    """Among the step's tokens."""
    place: int
    count: int
    keys: slice
    """Among the row's gathered keys."""
    hidden: Tensor
    """[TILE, keys] fp32 to add to the scores: −inf where a place must not see a key, else 0."""


@dataclass(frozen=True, slots=True)
class RowTiles:
    """One row."""

    runs: Tensor
    """[2 · Hk · S] int64: keys, then values, of each head. A place that none of the row's queries sees holds a token
    that one does see: what is masked must still be a number."""
    tiles: tuple[QueryTile, ...]


@dataclass(frozen=True, slots=True)
class InvariantPlan:
    """What one group's layers do in this step."""

    rows: tuple[RowTiles, ...]


def build_invariant_plans(
    shape: PageShape,
    block_tables: Tensor,
    query_start: Sequence[int],
    seq_lens: Sequence[int],
    windows: Sequence[int | None],
) -> list[InvariantPlan]:
    """One plan per group; arguments as `kernels.host_plan.build_host_plans` takes them."""
    plans = []
    for table, window in zip(block_tables, windows, strict=True):
        rows = [
            _row(shape, table[row], query_start[row], query_start[row + 1], length, window)
            for row, length in enumerate(seq_lens)
            if query_start[row + 1] > query_start[row]
        ]
        plans.append(InvariantPlan(tuple(rows)))
    return plans


def invariant_attention(
    q: Tensor,
    kv: Tensor,
    scale: float,
    soft_cap: float | None,
    plan: InvariantPlan,
    kv_scale: Tensor | None = None,
) -> Tensor:
    """[T, Hq, D] in q's dtype; arguments as `kernels.host_attention.paged_attention_host` takes them."""
    if kv_scale is not None:
        scales = per_query_head(kv_scale, q.shape[1])
        return (invariant_attention(q.float() * scales[0], kv, scale, soft_cap, plan) * scales[1]).to(q.dtype)
    matrix, kv_heads, dim = run_matrix(kv), kv.shape[2], kv.shape[4]
    out = torch.zeros_like(q, memory_format=torch.contiguous_format)
    for row in plan.rows:
        keys, values = matrix.index_select(0, row.runs).view(2, kv_heads, -1, dim).float()
        for tile in row.tiles:
            tokens = slice(tile.first, tile.first + tile.count)
            out[tokens] = _attend(q[tokens], keys[:, tile.keys], values[:, tile.keys], tile, scale, soft_cap)
    return out


def _row(shape: PageShape, table: Tensor, first: int, end: int, length: int, window: int | None) -> RowTiles:
    """`table` [B]: the row's pages."""
    start = length - (end - first)
    spans = []
    for tile_start in range(start // TILE * TILE, length, TILE):
        low = 0 if window is None else max(0, tile_start - window + 1) // KEYS * KEYS
        spans.append((tile_start, low, -(-(tile_start + TILE) // KEYS) * KEYS))
    lowest = spans[0][1]
    seen = 0 if window is None else max(0, start - window + 1)
    positions = torch.arange(lowest, spans[-1][2]).clamp_(seen, length - 1)
    runs = runs_of(shape, table[None, None], positions[None])
    tiles = [
        QueryTile(
            first=first + max(tile_start, start) - start,
            place=max(tile_start, start) - tile_start,
            count=min(tile_start + TILE, length) - max(tile_start, start),
            keys=slice(low - lowest, high - lowest),
            hidden=_hidden(tile_start, low, high, window),
        )
        for tile_start, low, high in spans
    ]
    return RowTiles(runs.flatten(), tuple(tiles))


def _hidden(tile_start: int, low: int, high: int, window: int | None) -> Tensor:
    queries, keys = torch.arange(tile_start, tile_start + TILE)[:, None], torch.arange(low, high)
    visible = keys <= queries
    if window is not None:
        visible &= keys > queries - window
    return torch.zeros(TILE, high - low).masked_fill_(~visible, float("-inf"))


def _attend(
    q: Tensor, keys: Tensor, values: Tensor, tile: QueryTile, scale: float, soft_cap: float | None
) -> Tensor:
    """q [count, Hq, D], keys and values [Hk, S, D] → [count, Hq, D]."""
    count, num_heads, dim = q.shape
    kv_heads = keys.shape[0]
    group = num_heads // kv_heads
    places = slice(tile.place, tile.place + count)
    packed = torch.zeros(kv_heads, group, TILE, dim)
    packed[:, :, places] = q.view(count, kv_heads, group, dim).permute(1, 2, 0, 3)
    scores = torch.bmm(packed.view(kv_heads, group * TILE, dim), keys.transpose(1, 2)).mul_(scale)
    if soft_cap is not None:
        scores.div_(soft_cap).tanh_().mul_(soft_cap)
    scores.view(kv_heads, group, TILE, -1).add_(tile.hidden)
    out = torch.bmm(torch.softmax(scores, dim=-1), values).view(kv_heads, group, TILE, dim)
    return out[:, :, places].permute(2, 0, 1, 3).reshape(count, num_heads, dim).to(q.dtype)
