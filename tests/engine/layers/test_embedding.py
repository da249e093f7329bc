"""Embedding tables, dense and compact heads."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch

from engine.gguf import GGUFTensor, TensorType
from engine.layers.embedding import (
    SHORTLIST,
    CompactHead,
    DenseHead,
    DenseRows,
    Embedding,
    GGUFRows,
    SoftCappedHead,
)
from engine.layers.gguf_quants import dequantize
from engine.layers.linear import Linear

VOCAB, HIDDEN = 3000, 96
BOTH_KINDS = pytest.mark.parametrize("bfloat16", [True, False], ids=["bf16", "int8"])


@pytest.fixture(scope="module")
def matrix() -> GGUFTensor:
    """Q8_0, with rows of very different sizes."""
    generator = np.random.default_rng(3)
    values = generator.standard_normal((VOCAB, HIDDEN)) * generator.uniform(0.02, 0.3, (VOCAB, 1))
    raw = gguf.quants.quantize(values.astype(np.float32), gguf.GGMLQuantizationType.Q8_0)
    return GGUFTensor("e", TensorType.Q8_0, (VOCAB, HIDDEN), raw.reshape(-1))


@pytest.fixture
def hidden() -> torch.Tensor:
    return torch.randn(9, HIDDEN, generator=torch.Generator().manual_seed(5)) * 3


def test_rows_of_both_tables_are_the_matrix_rows(matrix: GGUFTensor) -> None:
    whole = dequantize(matrix)
    ids = torch.tensor([7, 0, 2999, 7])
    for table in (DenseRows(whole), GGUFRows(matrix)):
        assert table.shape == (VOCAB, HIDDEN)
        assert torch.equal(table.rows(ids), whole[ids])


def test_embedding_scales_in_its_compute_type() -> None:
    table = DenseRows(torch.ones(4, 640))
    assert Embedding(table, torch.float32)(torch.tensor([1]))[0, 0] == 1.0
    assert Embedding(table, torch.float32, 640**0.5)(torch.tensor([1]))[0, 0].item() == pytest.approx(
        25.298222
    )
    in_bf16 = Embedding(table, torch.bfloat16, 640**0.5)(torch.tensor([1]))
    assert in_bf16.dtype == torch.bfloat16
    assert in_bf16[0, 0] == 25.25


@BOTH_KINDS
def test_compact_head_is_exact_where_it_matters(
    matrix: GGUFTensor, hidden: torch.Tensor, bfloat16: bool
) -> None:
    exact = hidden.double() @ dequantize(matrix).double().T
    found = CompactHead(GGUFRows(matrix), bfloat16=bfloat16)(hidden)
    assert found.dtype == torch.float32
    likely = exact.topk(20, dim=1).indices
    assert torch.equal(found.argmax(1), exact.argmax(1))
    assert (found - exact).gather(1, likely).abs().max() < 1e-4
    # The other logits: hundredths, and none above the shortlist.
    assert (found - exact).abs().max() < 0.05 * exact.std() + 0.05
    assert (found.logsumexp(1) - exact.logsumexp(1)).abs().max() < 2e-3


@BOTH_KINDS
def test_compact_head_answers_each_row_alike_alone_and_together(
    matrix: GGUFTensor, hidden: torch.Tensor, bfloat16: bool
) -> None:
    head = CompactHead(GGUFRows(matrix), bfloat16=bfloat16)
    together = head(hidden)
    alone = torch.cat([head(hidden[row : row + 1]) for row in range(hidden.shape[0])])
    assert (together - alone).abs().max() < 1e-4


@BOTH_KINDS
def test_compact_head_takes_no_rows_and_small_vocabularies(bfloat16: bool) -> None:
    table = DenseRows(torch.randn(SHORTLIST // 2, 32))
    head = CompactHead(table, bfloat16=bfloat16)
    assert head(torch.zeros(0, 32)).shape == (0, SHORTLIST // 2)
    x = torch.randn(2, 32)
    assert torch.allclose(head(x), x @ table.rows(torch.arange(SHORTLIST // 2)).T, atol=1e-5)


def test_dense_and_capped_heads() -> None:
    weight = torch.randn(50, 32)
    x = torch.randn(3, 32)
    plain = DenseHead(Linear(weight))(x)
    assert torch.allclose(plain, x @ weight.T, atol=1e-5)
    capped = SoftCappedHead(DenseHead(Linear(weight)), 3.0)(x)
    assert torch.allclose(capped, 3.0 * torch.tanh(x @ weight.T / 3.0), atol=1e-5)
    in_bf16 = DenseHead(Linear(weight.bfloat16()))(x.bfloat16())
    assert in_bf16.dtype == torch.float32
