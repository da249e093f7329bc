"""GGUF block layouts → fp32.

Called by the weight loader for whole tensors and by the embedding for single rows. Each function takes
blocks [n, bytes] uint8 and gives values [n, elements] fp32. All layouts are little-endian; d and m are
fp16 scales. Knows no files and no names.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from engine.gguf import BLOCK_LAYOUT, GGUFTensor, TensorType

_CHUNK_ELEMENTS = 1 << 17
"""Large tensors are unpacked in pieces of about this size, so that temporaries stay in the cache and come from
the heap: fresh pages for every one of them cost up to six times the arithmetic."""


def dequantize(tensor: GGUFTensor) -> Tensor:
    """The whole tensor in fp32, shaped as in the file."""
    return dequantize_rows(tensor, torch.from_numpy(tensor.data)).view(tensor.shape)


def dequantize_rows(tensor: GGUFTensor, data: Tensor) -> Tensor:
    """`data` (uint8, whole blocks of `tensor`'s type) in fp32, flat."""
    elements, num_bytes = BLOCK_LAYOUT[tensor.type]
    blocks = data.reshape(-1, num_bytes)
    unpack = _UNPACK[tensor.type]
    step = max(1, _CHUNK_ELEMENTS // elements)
    out = torch.empty(blocks.shape[0], elements)
    for start in range(0, blocks.shape[0], step):
        out[start : start + step] = unpack(blocks[start : start + step])
    return out.flatten()


def _f32(blocks: Tensor) -> Tensor:
    return blocks.view(torch.float32)


def _f16(blocks: Tensor) -> Tensor:
    return blocks.view(torch.float16).float()


def _bf16(blocks: Tensor) -> Tensor:
    return blocks.view(torch.bfloat16).float()


def _q4_0(blocks: Tensor) -> Tensor:
    """d, 16 bytes of nibbles (elements 0–15 low, 16–31 high): d · (q − 8)."""
    return _scale(blocks, 0) * (_nibbles(blocks[:, 2:]) - 8).float()


def _q4_1(blocks: Tensor) -> Tensor:
    """d, m, nibbles: d · q + m."""
    return _scale(blocks, 0) * _nibbles(blocks[:, 4:]).float() + _scale(blocks, 2)


def _q5_0(blocks: Tensor) -> Tensor:
    """d, 32 fifth bits, nibbles: d · (q − 16)."""
    q = _nibbles(blocks[:, 6:]) + (_bits(blocks[:, 2:6]) << 4)
    return _scale(blocks, 0) * (q - 16).float()


def _q5_1(blocks: Tensor) -> Tensor:
    """d, m, 32 fifth bits, nibbles: d · q + m."""
    q = _nibbles(blocks[:, 8:]) + (_bits(blocks[:, 4:8]) << 4)
    return _scale(blocks, 0) * q.float() + _scale(blocks, 2)


def _q8_0(blocks: Tensor) -> Tensor:
    """d, 32 signed bytes: d · q."""
    return _scale(blocks, 0) * blocks[:, 2:].view(torch.int8).float()


def _q4_k(blocks: Tensor) -> Tensor:
    """d, dmin, 8 packed 6-bit (scale, min) pairs, 128 bytes of nibbles; 8 sub-blocks of 32 elements."""
    scales, minimums = _k_scales(blocks)
    q = _k_nibbles(blocks[:, 16:]).float()
    return (scales * q - minimums).flatten(1)


def _q5_k(blocks: Tensor) -> Tensor:
    """As Q4_K, with 32 bytes of fifth bits: bit j of byte i belongs to element i of sub-block j."""
    scales, minimums = _k_scales(blocks)
    shifts = torch.arange(8, dtype=torch.uint8)[None, :, None]
    fifth = (blocks[:, None, 16:48] >> shifts) & 1
    q = (_k_nibbles(blocks[:, 48:]) + (fifth << 4)).float()
    return (scales * q - minimums).flatten(1)


def _q6_k(blocks: Tensor) -> Tensor:
    """128 bytes of low nibbles, 64 of high pairs, 16 signed scales, d: d · scale · (q − 32).

    Two halves of 128 elements; in each, quarter k of 32 elements takes its nibbles from bytes 0–31 (k even)
    or 32–63 (k odd), low nibbles first, and its high bits from bit pair k. 16 elements share a scale.
    """
    half = blocks[:, :128].reshape(-1, 2, 64)
    low = torch.cat((half & 15, half >> 4), dim=-1)
    shifts = torch.arange(0, 8, 2, dtype=torch.uint8)[:, None]
    high = ((blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts) & 3).reshape(-1, 2, 128)
    q = (low + (high << 4)).view(torch.int8) - 32
    scales = _scale(blocks, 208) * blocks[:, 192:208].view(torch.int8).float()
    return (scales[:, :, None] * q.reshape(-1, 16, 16).float()).flatten(1)


def _scale(blocks: Tensor, at: int) -> Tensor:
    """The fp16 at byte `at` of every block, [n, 1] fp32."""
    return blocks[:, at : at + 2].contiguous().view(torch.float16).float()


def _nibbles(packed: Tensor) -> Tensor:
    """[n, 16] bytes → [n, 32] int8: all low nibbles, then all high ones."""
    return torch.cat((packed & 15, packed >> 4), dim=1).view(torch.int8)


def _bits(packed: Tensor) -> Tensor:
    """[n, 4] bytes → [n, 32] int8, lowest bit first."""
    shifts = torch.arange(8, dtype=torch.uint8)
    return ((packed[:, :, None] >> shifts) & 1).view(torch.int8).flatten(1)


def _k_nibbles(packed: Tensor) -> Tensor:
    """[n, 128] bytes → [n, 8, 32] uint8: 32 bytes hold two sub-blocks, low nibbles first."""
    pairs = packed.reshape(-1, 4, 1, 32)
    return torch.cat((pairs & 15, pairs >> 4), dim=2).reshape(-1, 8, 32)


def _k_scales(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Scales and minimums of the 8 sub-blocks, each [n, 8, 1] fp32, times d and dmin.

    12 bytes a, b, c (4 each): the first four pairs are the low 6 bits of a and b; the last four take
    their low 4 bits from c's nibbles and their high 2 from the top of a and b.
    """
    a, b, c = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scales = torch.cat((a & 63, (c & 15) | ((a >> 6) << 4)), dim=1)
    minimums = torch.cat((b & 63, (c >> 4) | ((b >> 6) << 4)), dim=1)
    d, dmin = _scale(blocks, 0), _scale(blocks, 2)
    return (d * scales.float())[:, :, None], (dmin * minimums.float())[:, :, None]


_UNPACK: dict[TensorType, Callable[[Tensor], Tensor]] = {
    TensorType.F32: _f32,
    TensorType.F16: _f16,
    TensorType.BF16: _bf16,
    TensorType.Q4_0: _q4_0,
    TensorType.Q4_1: _q4_1,
    TensorType.Q5_0: _q5_0,
    TensorType.Q5_1: _q5_1,
    TensorType.Q8_0: _q8_0,
    TensorType.Q4_K: _q4_k,
    TensorType.Q5_K: _q5_k,
    TensorType.Q6_K: _q6_k,
}
