"""kernels.philox: the published vectors, the layout of the noise, and what it depends on."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kernels import philox

# Random123's kat_vectors, philox4x32 with 10 rounds: counter, key, words.
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def _python_philox(counter: tuple[int, ...], key: tuple[int, int]) -> tuple[int, ...]:
    """The same generator on Python's integers."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        a, b = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ c3 ^ k1, a & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


@pytest.mark.parametrize(("counter", "key", "words"), VECTORS)
def test_published_vectors(counter: tuple[int, ...], key: tuple[int, int], words: tuple[int, ...]) -> None:
    got = philox.philox(tuple(torch.tensor(c) for c in counter), (torch.tensor(key[0]), torch.tensor(key[1])))
    assert tuple(int(word) for word in got) == words
    assert _python_philox(counter, key) == words


def test_random_counters_match_python_integers(seed: int) -> None:
    counter = torch.randint(0, 2**32, (4, 50))
    key = torch.randint(0, 2**32, (2, 50))
    got = torch.stack(philox.philox(tuple(counter), (key[0], key[1])))
    for i in range(50):
        expected = _python_philox(tuple(counter[:, i].tolist()), (int(key[0, i]), int(key[1, i])))
        assert tuple(got[:, i].tolist()) == expected


def test_bits_follow_the_stated_key_and_counter() -> None:
    seed = 0xDEADBEEF_00C0FFEE - 2**64
    tokens = torch.tensor([[0, 1, 2, 3, 4, 99, 262_143]])
    bits = philox.token_bits(torch.tensor([[seed]]), tokens, torch.tensor([[7]]), stream=3)
    for token, got in zip(tokens[0].tolist(), bits[0].tolist(), strict=True):
        assert got == _python_philox((token // 4, 7, 3, 0), (0x00C0FFEE, 0xDEADBEEF))[token % 4]


def test_range_bits_equal_token_bits(seed: int) -> None:
    seeds, positions = torch.randint(-(2**63), 2**63 - 1, (3,)), torch.tensor([0, 5, 70_000])
    tokens = torch.arange(8, 101)[None].expand(3, -1)
    single = philox.token_bits(seeds[:, None], tokens, positions[:, None])
    assert torch.equal(philox.range_bits(seeds, positions, 8, 101), single)
    assert torch.equal(philox.range_bits(seeds[1:2], positions[1:2], 8, 101), single[1:2])


def test_neighbouring_arguments_give_unlike_bits() -> None:
    def bits(seed: int, position: int, stream: int = 0) -> list[int]:
        return philox.range_bits(torch.tensor([seed]), torch.tensor([position]), 0, 64, stream)[0].tolist()

    variants = [bits(1, 1), bits(2, 1), bits(1 + 2**32, 1), bits(1, 2), bits(1, 1, 1)]
    assert len({word for variant in variants for word in variant}) == 5 * 64


def test_exponential_is_finite_positive_and_monotone() -> None:
    bits = torch.tensor([0, 1, 2, 1000, 2**31, 2**32 - 2, 2**32 - 1])
    values = philox.exponential(bits)
    assert values.dtype == torch.float32
    assert bool((values > 0).all())
    assert bool(values.isfinite().all())
    assert bool((values.diff() >= 0).all())
    exact = -torch.log1p(-(bits[:5].double() + 0.5) / 2**32)
    torch.testing.assert_close(values[:5].double(), exact, rtol=1e-6, atol=0)


def test_exponential_has_the_right_mean_and_tail() -> None:
    values = philox.exponential(philox.range_bits(torch.arange(4), torch.arange(4), 0, 100_000)).double()
    # 400,000 draws: the standard error of the mean is 0.0016, of the tail share at most 0.0008.
    assert abs(float(values.mean()) - 1) < 0.008
    for cut in (0.1, 1.0, 3.0):
        assert abs(float((values > cut).double().mean()) - float(torch.tensor(-cut).exp())) < 0.004


@triton.jit
def _noise(seeds, positions, words, exponentials, QUADS: tl.constexpr):
    row = tl.program_id(0)
    quad = tl.arange(0, QUADS)
    w0, w1, w2, w3 = philox.quad_words(tl.load(seeds + row), quad, tl.load(positions + row), 3)
    bits = tl.interleave(tl.interleave(w0, w2), tl.interleave(w1, w3))
    at = row * QUADS * 4 + tl.arange(0, QUADS * 4)
    tl.store(words + at, bits.to(tl.int64))
    tl.store(exponentials + at, philox.exponential_of(bits))


def test_triton_gives_the_same_bits_and_exponentials(seed: int) -> None:
    seeds = torch.cat((torch.tensor([0, -1, 2**63 - 1, -(2**63)]), torch.randint(-(2**63), 2**63 - 1, (4,))))
    positions = torch.tensor([0, 1, 262_143, 5, 6, 7, 8, 131_071], dtype=torch.int32)
    words, exponentials = torch.zeros(8, 256, dtype=torch.int64), torch.zeros(8, 256)
    _noise[(8,)](seeds, positions, words, exponentials, QUADS=64)
    assert torch.equal(words, philox.range_bits(seeds, positions.long(), 0, 256, stream=3))
    torch.testing.assert_close(exponentials, philox.exponential(words), rtol=1e-6, atol=0)


@triton.jit
def _exponentials(words, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, philox.exponential_of(tl.load(words + i).to(tl.uint32)))


def test_triton_keeps_small_and_large_exponentials_exact() -> None:
    words = torch.tensor(
        [0, 1, 2, 3, 255, 256, 257, 1000, 65_537, 2**24, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1, 5, 6]
    )
    out = torch.zeros(16)
    _exponentials[(1,)](words, out, N=16)
    torch.testing.assert_close(out, philox.exponential(words), rtol=1e-6, atol=0)
