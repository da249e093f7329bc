"""kernels.host_rope: what the shared tests of rope_and_cache do not see."""

from __future__ import annotations

import pytest
import torch

from kernels.host_plan import PageShape, write_runs
from kernels.host_rope import rope_and_cache_host

pytestmark = pytest.mark.usefixtures("seed")

TOKENS, HEADS, KV_HEADS, DIM = 5, 4, 2, 16


@pytest.mark.parametrize("normed", [False, True])
def test_slices_of_one_projection_give_what_separate_tensors_give(normed: bool) -> None:
    """And looked-up runs what slots give; the projection itself is left alone."""
    fused = torch.randn(TOKENS, HEADS + 2 * KV_HEADS, DIM)
    kept = fused.clone()
    q, k, v = torch.split(fused, [HEADS, KV_HEADS, KV_HEADS], dim=1)
    weights = (torch.randn(DIM), torch.randn(DIM)) if normed else (None, None)
    positions, cos_sin = torch.randint(9, (TOKENS,)), torch.randn(9, DIM)
    slots = torch.randperm(3 * 8)[:TOKENS]
    pools = torch.zeros(2, 3, 2, 2, KV_HEADS, 8, DIM)
    runs = write_runs(PageShape.of(pools[0, :, 1]), slots)
    rest = (positions, cos_sin)
    together = rope_and_cache_host(q, k, v, *rest, pools[0, :, 1], slots, *weights, runs=runs)
    apart = rope_and_cache_host(q.clone(), k.clone(), v.clone(), *rest, pools[1, :, 1], slots, *weights)
    assert torch.equal(together, apart)
    assert torch.equal(pools[0], pools[1])
    assert torch.equal(fused, kept)
