"""kernels.sampling_table: what a kernel reads is what was packed, and keys are ordered as their logits."""

from __future__ import annotations

import math

import pytest
import torch
import triton
import triton.language as tl

from kernels import sampling_table
from kernels.sampling_table import WORDS, pack_row, pack_rows

SETTINGS = {
    "temperature": 0.7, "min_p": 0.1, "top_p": 0.9, "repetition": 1.2, "presence": -0.5, "frequency": 0.25,
    "top_k": 40, "seed": -(2**63), "prompt_len": 9, "num_logprobs": 5, "min_len": 12, "num_edits": 3, "restricted": 1,
}  # fmt: skip


@triton.jit
def _read(table, reals, ints, REALS: tl.constexpr, INTS: tl.constexpr):
    row = tl.program_id(0)
    for column in tl.static_range(REALS):
        tl.store(reals + row * REALS + column, sampling_table.real_setting(table, row, column))
    for column in tl.static_range(INTS):
        tl.store(ints + row * INTS + column, sampling_table.int_setting(table, row, REALS + column))


@triton.jit
def _flags(table, out, vocab):
    row = tl.program_id(0)
    tl.store(out + row * 3, sampling_table.is_penalised(table, row).to(tl.int32))
    tl.store(out + row * 3 + 1, sampling_table.is_edited(table, row).to(tl.int32))
    tl.store(out + row * 3 + 2, sampling_table.is_filtered(table, row, vocab).to(tl.int32))


@triton.jit
def _keys(logits, keys, back, N: tl.constexpr):
    i = tl.arange(0, N)
    key = sampling_table.order_key(tl.load(logits + i))
    tl.store(keys + i, key)
    tl.store(back + i, sampling_table.key_logit(key))


def test_a_kernel_reads_what_was_packed() -> None:
    table = pack_rows([pack_row(), pack_row(**SETTINGS)]).to(torch.get_default_device())  # type: ignore[arg-type]  # by name
    assert table.shape == (2, WORDS)
    reals, ints = torch.zeros(2, 6, dtype=torch.float64), torch.zeros(2, 7, dtype=torch.int64)
    _read[(2,)](table, reals, ints, REALS=6, INTS=7)
    assert reals.tolist() == [[0, 0, 1, 1, 0, 0], list(SETTINGS.values())[:6]]
    assert ints.tolist() == [[0, 0, 0, -1, 0, 0, 0], list(SETTINGS.values())[6:]]


@pytest.mark.parametrize(
    ("settings", "flags"),
    [
        ({}, [0, 0, 0]),
        ({"temperature": 1.0}, [0, 0, 0]),
        ({"temperature": 1.0, "top_p": 0.5}, [0, 0, 1]),
        ({"temperature": 1.0, "min_p": 0.5}, [0, 0, 1]),
        ({"temperature": 1.0, "top_k": 99}, [0, 0, 1]),
        ({"temperature": 1.0, "top_k": 100}, [0, 0, 0]),
        ({"top_k": 5, "top_p": 0.5, "min_p": 0.5}, [0, 0, 0]),
        ({"repetition": 1.1}, [1, 1, 0]),
        ({"presence": -1.0}, [1, 1, 0]),
        ({"frequency": 0.1}, [1, 1, 0]),
        ({"num_edits": 1}, [0, 1, 0]),
        ({"restricted": True}, [0, 1, 0]),
    ],
)
def test_flags(settings: dict[str, float], flags: list[int]) -> None:
    out = torch.zeros(1, 3, dtype=torch.int32)
    _flags[(1,)](pack_rows([pack_row(**settings)]).to(out.device), out, 100)  # type: ignore[arg-type]  # by name
    assert out[0].tolist() == flags


def test_keys_are_ordered_as_logits_and_both_zeros_are_one(seed: int) -> None:
    logits = torch.cat(
        (torch.randn(57) * 10, torch.tensor([0.0, -0.0, math.inf, -math.inf, 1e-40, -1e-40, 3e38]))
    )
    keys, back = torch.zeros(64, dtype=torch.int32), torch.zeros(64)
    _keys[(1,)](logits, keys, back, N=64)
    assert torch.equal(back, logits)
    assert torch.equal(keys[:, None] < keys, logits[:, None] < logits)
    assert keys[57] == keys[58] == 0
    assert keys.max() < sampling_table.KEY_MAX.value
