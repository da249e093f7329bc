"""The attention work list of a step on the CPU: which keys and values each row needs, as plain indices.

Place in the path: runner, once per step and KV group → here; read by `kernels/host_attention.py` in every layer of
the group. A layer's pages are seen as a matrix of runs of D elements: one run is the key or the value of one token
and head, and where the runs of a token lie depends on its page alone, not on the layer. So the runs are looked up
once per step, and a layer copies them with one `index_select`. Knows no layer and no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_BUCKET_RATIO = 2
"""One-query rows share a padded batch when their visible lengths differ by at most this factor."""
_BUCKET_MIN = 64
"""Lengths below this are alike."""


@dataclass(frozen=True, slots=True)
class Singles:
    """Rows with one new token each, n of them, as one batch padded to S keys."""

    tokens: slice | Tensor
    """Where their queries stand among the step's tokens."""
    runs: Tensor
    """[2 · n · Hk · S] int64: keys, then values, of each row and head. A place past a row's end holds its newest
    token, which its owner has just written: whatever stands there is masked, and no other's NaN."""
    hidden: Tensor
    """[n · Hk, 1, S] or [1, 1, 1] fp32 to add to the scores: −inf past a row's end, else 0."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One row with several new tokens, and its S visible keys."""

    tokens: slice
    runs: Tensor
    """[2 · Hk · S] int64."""
    visible: Tensor | None
    """[queries, S] bool; None: plainly causal."""


@dataclass(frozen=True, slots=True)
class HostPlan:
    """What one group's layers do in this step."""

    singles: tuple[Singles, ...]
    chunks: tuple[Chunk, ...]
    num_tokens: int
    """Of the step that belong to a row; what comes after is padding."""


@dataclass(frozen=True, slots=True)
class PageShape:
    """How one layer's pages lie in memory, in runs."""

    kv_heads: int
    block: int
    runs_per_page: int
    """From one page to the next."""

    @classmethod
    def of(cls, kv: Tensor) -> PageShape:
        """For a layer's view [num_blocks, 2, Hk, block, D]; whole pages may lie apart, what is in one may not."""
        _, _, heads, block, dim = kv.shape
        assert kv.stride()[1:] == (heads * block * dim, block * dim, dim, 1), kv.stride()
        assert kv.stride(0) % dim == 0, kv.stride()
        return cls(heads, block, kv.stride(0) // dim)


def build_host_plans(
    shape: PageShape,
    block_tables: Tensor,
    query_start: Sequence[int],
    seq_lens: Sequence[int],
    windows: Sequence[int | None],
) -> list[HostPlan]:
    """One plan per group of `block_tables` [G, R, B] and its window, for rows r with tokens query_start[r] …
    query_start[r + 1] − 1, the last at position seq_lens[r] − 1. Groups that see the same keys share the work."""
    longest = max(seq_lens, default=0)
    alike: dict[int | None, list[int]] = {}
    for group, window in enumerate(windows):
        alike.setdefault(None if window is None or window >= longest else window, []).append(group)
    plans: dict[int, HostPlan] = {}
    for window, groups in alike.items():
        tables = block_tables if len(groups) == len(windows) else block_tables[groups]
        plans |= zip(groups, _plans(shape, tables, query_start, seq_lens, window), strict=True)
    return [plans[group] for group in range(len(windows))]


def write_runs(shape: PageShape, slots: Tensor) -> Tensor:
    """[…, 2 · Hk] int64: the runs that the keys, then the values, of tokens at `slots` […] go to."""
    first = slots // shape.block * shape.runs_per_page + slots % shape.block
    return first[..., None] + _places(shape)


def run_matrix(kv: Tensor) -> Tensor:
    """A layer's pages [num_blocks, 2, Hk, block, D] as the matrix of runs, sharing memory."""
    dim = kv.shape[4]
    count = (kv.shape[0] - 1) * kv.stride(0) // dim + 2 * kv.shape[2] * kv.shape[3]
    return kv.as_strided((count, dim), (dim, 1))


def _plans(
    shape: PageShape,
    tables: Tensor,
    query_start: Sequence[int],
    seq_lens: Sequence[int],
    window: int | None,
) -> list[HostPlan]:
    """For groups with the same window."""
    spans: dict[int, tuple[int, int]] = {}
    chunks: list[list[Chunk]] = []
    for row, length in enumerate(seq_lens):
        first, end = query_start[row], query_start[row + 1]
        if end - first == 1:
            spans[row] = (_oldest(length, window), length)
        elif end > first:
            chunks.append(_chunks(shape, tables[:, row], slice(first, end), length, window))
    singles = [_singles(shape, tables, query_start, bucket, spans) for bucket in _buckets(spans)]
    return [
        HostPlan(
            tuple(each[group] for each in singles),
            tuple(each[group] for each in chunks),
            num_tokens=query_start[len(seq_lens)],
        )
        for group in range(tables.shape[0])
    ]


def _oldest(length: int, window: int | None, num_queries: int = 1) -> int:
    return 0 if window is None else max(0, length - num_queries - window + 1)


def _places(shape: PageShape) -> Tensor:
    """[2 · Hk]: where the run of each head's key, then value, lies behind a page's first."""
    return torch.arange(2 * shape.kv_heads) * shape.block


def runs_of(shape: PageShape, tables: Tensor, positions: Tensor) -> Tensor:
    """[G, 2, n, Hk, S] runs of the tokens at `positions` [n, S] of the rows of `tables` [G, n, B]. A warm-up's
    rows have no pages (−1) and read the first one."""
    spans = (positions // shape.block).expand(tables.shape[0], -1, -1)
    pages = tables.gather(2, spans).long().clamp_min_(0)
    first = pages * shape.runs_per_page + positions % shape.block
    return first[:, None, :, None] + _places(shape).view(2, 1, shape.kv_heads, 1)


def _singles(
    shape: PageShape,
    tables: Tensor,
    query_start: Sequence[int],
    rows: list[int],
    spans: dict[int, tuple[int, int]],
) -> list[Singles]:
    oldest = torch.tensor([spans[row][0] for row in rows])[:, None]
    lens = torch.tensor([spans[row][1] for row in rows])[:, None]
    widths = [spans[row][1] - spans[row][0] for row in rows]
    positions = oldest + torch.arange(max(widths))
    hidden = torch.zeros(1, 1, 1)
    if min(widths) < max(widths):
        hidden = torch.zeros(len(rows), max(widths)).masked_fill_(positions >= lens, float("-inf"))
        hidden = hidden.repeat_interleave(shape.kv_heads, 0)[:, None]
    some = tables if len(rows) == tables.shape[1] else tables[:, rows]
    runs = runs_of(shape, some, torch.minimum(positions, lens - 1))
    tokens = [query_start[row] for row in rows]
    together = tokens[-1] - tokens[0] == len(tokens) - 1
    where = slice(tokens[0], tokens[-1] + 1) if together else torch.tensor(tokens)
    return [Singles(where, each, hidden) for each in runs.flatten(1)]


def _chunks(shape: PageShape, tables: Tensor, tokens: slice, length: int, window: int | None) -> list[Chunk]:
    num_queries = tokens.stop - tokens.start
    keys = torch.arange(_oldest(length, window, num_queries), length)
    visible = None
    if num_queries < length or (window is not None and window < length):
        queries = torch.arange(length - num_queries, length)[:, None]
        visible = keys <= queries
        if window is not None:
            visible &= keys > queries - window
    runs = runs_of(shape, tables[:, None], keys[None])
    return [Chunk(tokens, each, visible) for each in runs.flatten(1)]


def _buckets(spans: dict[int, tuple[int, int]]) -> list[list[int]]:
    """Rows whose visible lengths are alike, so that padding stays below the bucket's ratio; in the rows' order."""
    buckets: list[list[int]] = []
    shortest = 0
    for row, (oldest, length) in sorted(spans.items(), key=lambda item: item[1][1] - item[1][0]):
        if buckets and length - oldest <= max(_BUCKET_MIN, _BUCKET_RATIO * shortest):
            buckets[-1].append(row)
        else:
            buckets.append([row])
            shortest = length - oldest
    return [sorted(bucket) for bucket in buckets]
