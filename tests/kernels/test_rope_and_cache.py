"""kernels.rope_and_cache against per-element float64 rotations, and what it may write."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels import reference
from kernels.e4m3 import E4M3, E4M3_MAX
from kernels.host_rope import rope_and_cache_host
from kernels.rope_and_cache import rope_and_cache_triton
from tests.kernels import oracles

pytestmark = pytest.mark.usefixtures("seed")

NUM_TOKENS, HEADS, KV_HEADS, DIM, BLOCK, NUM_BLOCKS, LAYERS = 9, 6, 2, 24, 16, 5, 3


Op = Callable[..., Tensor]


@pytest.fixture(params=["reference", "host", "triton"])
def rope_and_cache(request: pytest.FixtureRequest) -> Op:
    ops = {
        "reference": reference.rope_and_cache,
        "host": rope_and_cache_host,
        "triton": rope_and_cache_triton,
    }
    return ops[request.param]


def _angles() -> Tensor:
    return torch.rand(100, DIM // 2, dtype=torch.float64) * 6


def _inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.randn(NUM_TOKENS, HEADS, DIM).to(dtype),
        torch.randn(NUM_TOKENS, KV_HEADS, DIM).to(dtype),
        torch.randn(NUM_TOKENS, KV_HEADS, DIM).to(dtype),
    )


def _slots() -> Tensor:
    slots = torch.randperm(NUM_BLOCKS * BLOCK)[:NUM_TOKENS]
    slots[[2, 5]] = -1
    return slots


def _rotated(x: Tensor, positions: Tensor, angles: Tensor, weight: Tensor | None) -> Tensor:
    wide = x.double() if weight is None else oracles.rms_norm(x, weight, 1e-5)
    rows = [
        [oracles.rotate(head, angles[p]) for head in token] for token, p in zip(wide, positions, strict=True)
    ]
    return torch.stack([torch.stack(row) for row in rows])


@pytest.mark.parametrize("dtype", oracles.DTYPES)
@pytest.mark.parametrize("normed", [False, True])
def test_rotates_and_writes_only_its_slots(rope_and_cache: Op, dtype: torch.dtype, normed: bool) -> None:
    q, k, v = _inputs(dtype)
    angles, slots = _angles(), _slots()
    positions = torch.randint(0, 100, (NUM_TOKENS,), dtype=torch.int32)
    cos_sin = torch.cat((angles.cos(), angles.sin()), -1).float()
    weights = (torch.randn(DIM), torch.randn(DIM)) if normed else (None, None)
    pool = torch.full((NUM_BLOCKS, LAYERS, 2, KV_HEADS, BLOCK, DIM), float("nan"), dtype=dtype)
    out = rope_and_cache(q, k, v, positions, cos_sin, pool[:, 1], slots, *weights, eps=1e-5)

    assert out.dtype == dtype
    oracles.assert_close(out, _rotated(q, positions, angles, weights[0]))
    expected_k = _rotated(k, positions, angles, weights[1])
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            page = pool[slot // BLOCK, 1]
            oracles.assert_close(page[0, :, slot % BLOCK], expected_k[token])
            assert torch.equal(page[1, :, slot % BLOCK], v[token])
            page[:, :, slot % BLOCK] = float("nan")
    assert pool.isnan().all(), "something outside the given slots was written"


def test_all_slots_used_and_none_used(rope_and_cache: Op) -> None:
    q, k, v = _inputs(torch.float32)
    cos_sin = torch.cat((torch.ones(4, DIM // 2), torch.zeros(4, DIM // 2)), -1)
    positions = torch.zeros(NUM_TOKENS, dtype=torch.int32)
    kv = torch.zeros(NUM_BLOCKS, 2, KV_HEADS, BLOCK, DIM)
    assert torch.equal(rope_and_cache(q, k, v, positions, cos_sin, kv, torch.full((NUM_TOKENS,), -1)), q)
    assert not kv.any()
    rope_and_cache(q, k, v, positions, cos_sin, kv, torch.arange(NUM_TOKENS))
    assert torch.equal(kv[0, 0, :, :NUM_TOKENS], k.transpose(0, 1))


@pytest.mark.parametrize("dtype", oracles.DTYPES)
@pytest.mark.parametrize("normed", [False, True])
def test_fp8_pool_holds_the_scaled_and_clamped(rope_and_cache: Op, dtype: torch.dtype, normed: bool) -> None:
    q, k, v = _inputs(dtype)
    v[0] = 1e4
    angles, slots = _angles(), _slots()
    positions = torch.randint(0, 100, (NUM_TOKENS,), dtype=torch.int32)
    cos_sin = torch.cat((angles.cos(), angles.sin()), -1).float()
    weights = (torch.randn(DIM), torch.randn(DIM)) if normed else (None, None)
    kv_scale = torch.tensor([[0.01, 0.02], [0.03, 0.01]])
    pool = torch.zeros(NUM_BLOCKS, LAYERS, 2, KV_HEADS, BLOCK, DIM, dtype=E4M3)
    out = rope_and_cache(
        q, k, v, positions, cos_sin, pool[:, 1], slots, *weights, eps=1e-5, kv_scale=kv_scale
    )

    oracles.assert_close(out, _rotated(q, positions, angles, weights[0]))
    exact = torch.stack((_rotated(k, positions, angles, weights[1]), v.double()), 1)
    exact = (exact / kv_scale.double()[None, :, :, None]).clamp(-E4M3_MAX, E4M3_MAX)
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            stored = pool[slot // BLOCK, 1, :, :, slot % BLOCK].double()
            # Half a step, and what rounding k to its own type added.
            absolute, relative = oracles.TOLERANCE[dtype]
            allowed = exact[token].abs() * (2**-4 + relative) + 2**-10 + absolute / 0.01
            assert ((stored - exact[token]).abs() <= allowed).all()
            pool[slot // BLOCK, 1, :, :, slot % BLOCK] = 0
    assert not pool.float().any(), "something outside the given slots was written"
