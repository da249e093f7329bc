"""Dequantisation against the `gguf` package, bit for bit, on random blocks of every type."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from engine.gguf import BLOCK_LAYOUT, GGUFTensor, TensorType
from engine.layers import gguf_quants
from tests.gguf_models import K_BLOCKS, random_blocks

SCALE_BYTES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,)}
FLOATS = {TensorType.F32: torch.float32, TensorType.F16: torch.float16, TensorType.BF16: torch.bfloat16}
ROWS, WIDTH = 37, 512


def _random(kind: TensorType) -> NDArray[np.uint8]:
    """[ROWS, bytes of WIDTH elements]."""
    generator = np.random.default_rng(7)
    if kind in FLOATS:
        values = torch.from_numpy(generator.standard_normal((ROWS, WIDTH)).astype(np.float32))
        return values.to(FLOATS[kind]).view(torch.uint8).numpy()
    elements, num_bytes = BLOCK_LAYOUT[kind]
    count = ROWS * WIDTH // elements
    if kind.name in K_BLOCKS:
        return random_blocks(kind.name, count).reshape(ROWS, -1)
    blocks = generator.integers(0, 256, (count, num_bytes), dtype=np.uint8)
    for at in SCALE_BYTES[kind.name]:
        blocks[:, at : at + 2] = generator.standard_normal((count, 1)).astype(np.float16).view(np.uint8)
    return blocks.reshape(ROWS, -1)


@pytest.mark.parametrize("kind", TensorType, ids=lambda kind: kind.name)
def test_equals_the_gguf_package(kind: TensorType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_quants, "_CHUNK_ELEMENTS", 1536)  # several pieces and an uneven last one
    raw = _random(kind)
    found = gguf_quants.dequantize(GGUFTensor("t", kind, (ROWS, WIDTH), raw.reshape(-1)))
    if kind is TensorType.F32:
        expected = raw.view(np.float32)
    else:
        expected = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind.name])
    assert found.shape == (ROWS, WIDTH)
    assert np.array_equal(found.numpy(), np.asarray(expected, dtype=np.float32))


def test_single_rows_are_the_whole_tensors_rows() -> None:
    raw = _random(TensorType.Q6_K)
    tensor = GGUFTensor("t", TensorType.Q6_K, (ROWS, WIDTH), raw.reshape(-1))
    rows = torch.from_numpy(raw)[[5, 0, 36]]
    found = gguf_quants.dequantize_rows(tensor, rows).view(3, WIDTH)
    assert torch.equal(found, gguf_quants.dequantize(tensor)[[5, 0, 36]])
