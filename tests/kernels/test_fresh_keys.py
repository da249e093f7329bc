"""Attention that rotates its queries and writes its keys itself, against the two steps one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from kernels import reference
from kernels.attention_plan import AttentionPlan, allocate_plan, build_plan
from kernels.e4m3 import E4M3
from kernels.fresh_keys import FreshKeys
from kernels.paged_attention import paged_attention_triton

pytestmark = pytest.mark.usefixtures("seed")

HEADS, KV_HEADS, DIM, PAGE = 6, 2, 24, 16
LENGTHS, QUERIES = (1, 17, 64, 65, 130, 300), (1, 1, 3, 2, 5, 1)
"""Rows whose new keys fill a page, begin one, and lie in two parts of a split row."""


@dataclass
class Step:
    q: Tensor
    fresh: FreshKeys
    positions: Tensor
    table: Tensor
    pool: Tensor
    query_start: Tensor
    seq_lens: Tensor
    plan: AttentionPlan


def _step(*, normed: bool, window: int | None, dtype: torch.dtype = torch.float32) -> Step:
    pages = [-(-length // PAGE) for length in LENGTHS]
    order = torch.randperm(sum(pages) + 3).to(torch.int32)
    table = torch.full((len(pages), max(pages)), -1, dtype=torch.int32)
    for row, ids in enumerate(order[: sum(pages)].split(pages)):
        table[row, : len(ids)] = ids
    spans = zip(LENGTHS, QUERIES, strict=True)
    positions = torch.cat([torch.arange(length - count, length) for length, count in spans])
    rows = torch.repeat_interleave(torch.arange(len(QUERIES)), torch.tensor(QUERIES))
    slots = table[rows, positions // PAGE].long() * PAGE + positions % PAGE
    tokens = len(positions)
    heads = torch.randn(tokens, HEADS + 2 * KV_HEADS, DIM)
    q, k, v = heads.split((HEADS, KV_HEADS, KV_HEADS), 1)
    angles = torch.rand(max(LENGTHS), DIM // 2) * 6
    weights = (torch.rand(DIM) + 0.5, torch.rand(DIM) + 0.5) if normed else (None, None)
    query_start = torch.tensor([0, *QUERIES]).cumsum(0).to(torch.int32)
    seq_lens = torch.tensor(LENGTHS, dtype=torch.int32)
    plan = allocate_plan(
        len(QUERIES) + 2, tokens, HEADS, KV_HEADS, DIM, q.device, window, programs=16, min_split=64
    ).sized(len(QUERIES), tokens, wide=False)
    build_plan(plan, query_start, seq_lens)
    pool = torch.randn(sum(pages) + 3, 2, KV_HEADS, PAGE, DIM).to(dtype)
    fresh = FreshKeys(k, v, slots, torch.cat((angles.cos(), angles.sin()), -1), *weights, eps=1e-5)
    return Step(q, fresh, positions, table, pool, query_start, seq_lens, plan)


def _one_after_the_other(step: Step, window: int | None, kv_scale: Tensor | None) -> tuple[Tensor, Tensor]:
    pool, fresh = step.pool.clone(), step.fresh
    q = reference.rope_and_cache(
        step.q, fresh.k, fresh.v, step.positions, fresh.cos_sin, pool, fresh.slots, fresh.q_weight, fresh.k_weight,
        fresh.eps, kv_scale,
    )  # fmt: skip
    lens = step.seq_lens
    out = reference.paged_attention(q, pool, step.table, step.query_start, lens, 0.2, window, None, kv_scale)
    return out, pool


@pytest.mark.parametrize("window", [None, 40])
@pytest.mark.parametrize("normed", [False, True])
def test_equals_rotating_and_writing_first(normed: bool, window: int | None) -> None:
    step = _step(normed=normed, window=window)
    out, pool = _one_after_the_other(step, window, None)
    found = paged_attention_triton(step.q, step.pool, step.table, 0.2, None, step.plan, fresh=step.fresh)
    torch.testing.assert_close(found, out, atol=2e-5, rtol=2e-5)
    torch.testing.assert_close(step.pool, pool, atol=2e-6, rtol=2e-6)


def test_fp8_pool() -> None:
    step = _step(normed=False, window=None, dtype=E4M3)
    kv_scale = torch.tensor([[0.01, 0.02], [0.03, 0.01]])
    out, pool = _one_after_the_other(step, None, kv_scale)
    found = paged_attention_triton(step.q, step.pool, step.table, 0.2, None, step.plan, kv_scale, step.fresh)
    torch.testing.assert_close(found, out, atol=2e-3, rtol=2e-3)
    differs = (step.pool.view(torch.uint8) != pool.view(torch.uint8)).sum()
    assert differs <= pool.numel() * 1e-3, "more than rounding on a boundary"


def test_padding_is_not_written() -> None:
    step = _step(normed=False, window=None)
    step.fresh.slots[[0, 3]] = -1
    before, untouched = step.pool.clone(), torch.ones(step.pool.shape, dtype=torch.bool)
    for slot in step.fresh.slots.tolist():
        if slot >= 0:
            untouched[slot // PAGE, :, :, slot % PAGE] = False
    paged_attention_triton(step.q, step.pool, step.table, 0.2, None, step.plan, fresh=step.fresh)
    assert torch.equal(step.pool[untouched], before[untouched])
