"""Philox4x32-10: the counter-based random bits of the sampler, bit-exact on every device.

bits(seed, token, position, stream) = word (token mod 4) of Philox4x32-10 with
    key     = (seed mod 2³², seed div 2³²)
    counter = (token div 4, position, stream, 0)
so four neighbouring tokens share one evaluation, and the noise of a (seed, position) depends on nothing
else: not on the batch, the replica, a preemption or a restart. Integer arithmetic only; a kernel that
follows the formula gives the same bits. In torch, words are uint32 values held in int64 tensors; the Triton
functions at the end give the same words as uint32, and the same exponentials but for the last bits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10

SAMPLE_STREAM = 0
"""Noise of the race between tokens. Other uses of a (seed, position) take other streams."""


def philox(counter: tuple[Tensor, ...], key: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four words for each element of the broadcast counter (4 tensors) and key (2 tensors), all int64."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        # int64 products wrap modulo 2⁶⁴, which keeps both 32-bit halves right; the low halves are used in
        # one xor only and lose their upper bits in the mask that follows it.
        low, high = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0 = ((high >> 32) ^ c1 ^ k0) & _MASK
        c2 = ((low >> 32) ^ c3 ^ k1) & _MASK
        c1, c3 = high, low
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1 & _MASK, c2, c3 & _MASK


def split_seed(seed: Tensor) -> tuple[Tensor, Tensor]:
    """An int64 seed (two's complement of the 64-bit value) → its low and high words."""
    return seed & _MASK, (seed >> 32) & _MASK


def token_bits(seed: Tensor, tokens: Tensor, position: Tensor, stream: int = SAMPLE_STREAM) -> Tensor:
    """Noise bits of single tokens. The arguments broadcast; [R, 1] seeds and positions, [R, C] tokens."""
    words = philox(_counter(tokens >> 2, position, stream), split_seed(seed))
    lane = tokens & 3
    return torch.where(
        lane < 2, torch.where(lane == 0, words[0], words[1]), torch.where(lane == 2, words[2], words[3])
    )


def range_bits(seed: Tensor, position: Tensor, start: int, stop: int, stream: int = SAMPLE_STREAM) -> Tensor:
    """Noise bits [R, stop − start] of the tokens start … stop − 1 (start mod 4 = 0), for [R] seeds, positions."""
    assert start % 4 == 0, start
    quads = torch.arange(start // 4, -(-stop // 4), device=seed.device)[None]
    words = philox(_counter(quads, position[:, None], stream), split_seed(seed[:, None]))
    return torch.stack(words, dim=-1).flatten(1)[:, : stop - start]


def exponential(bits: Tensor) -> Tensor:
    """Uniform 32-bit words → fp32 standard exponentials: −log(1 − (bits + ½) / 2³²).

    log1p keeps the small values exact, and the small ones win races. The largest words round to 1, hence
    the clamp at the last fp32 below it.
    """
    uniform = ((bits.float() + 0.5) * 2.0**-32).clamp_max(1.0 - 2.0**-24)
    return -torch.log1p(-uniform)


def _counter(quad: Tensor, position: Tensor, stream: int) -> tuple[Tensor, ...]:
    return quad, position & _MASK, torch.full_like(position, stream), torch.zeros_like(position)


@triton.jit
def quad_words(seed, quad, position, STREAM: tl.constexpr):
    """The words of the tokens 4·quad … 4·quad + 3: four uint32 blocks. seed int64 and position int32, one each."""
    zero = quad * 0
    return tl.philox(seed, quad, zero + position, zero + STREAM, zero)


@triton.jit
def exponential_of(bits):
    """`exponential` of uint32 words, by log1p(−u) = log(1 − u) · −u / ((1 − u) − 1), which mends what rounding 1 − u
    takes from the small values."""
    u = tl.minimum((bits.to(tl.float32) + 0.5) * 2.0**-32, 1.0 - 2.0**-24)
    rest = 1.0 - u
    gone = 1.0 - rest
    mended = tl.log(rest) * (-u / tl.where(gone > 0, gone, 1.0))
    return tl.where(gone > 0, mended, u)
