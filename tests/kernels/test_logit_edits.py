"""kernels.logit_edits against a loop over the vocabulary."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from kernels.logit_edits import END_BIT, edit_logits
from kernels.sampling_table import pack_row, pack_rows

pytestmark = pytest.mark.usefixtures("seed")

VOCAB, PIECE = 150, 64
PLAIN, LISTED, RESTRICTED, BOTH, PENALISED = range(5)
ENDS = {5, 70, 149}
LENGTH, MIN_LEN = 7, 8


def _mask(allowed: set[int]) -> Tensor:
    words = [0] * -(-VOCAB // 32)
    for token in allowed:
        words[token // 32] |= 1 << token % 32
    return torch.tensor([word - 2**32 if word >= 2**31 else word for word in words], dtype=torch.int32)


@pytest.mark.parametrize("length", [MIN_LEN - 1, MIN_LEN])
@pytest.mark.parametrize("num_biases", [4, 100])
def test_matches_a_loop_and_keeps_what_was_there(length: int, num_biases: int) -> None:
    biases = {
        int(token): float(value)
        for token, value in zip(torch.randperm(VOCAB)[:num_biases], torch.randn(num_biases), strict=True)
    }
    allowed = set(torch.randperm(VOCAB)[:80].tolist())
    ids = [token | (END_BIT if token in ENDS else 0) for token in biases] + [
        token | END_BIT for token in ENDS - set(biases)
    ]
    edit_ids, edit_biases = torch.zeros(5, 200, dtype=torch.int32), torch.zeros(5, 200)
    edit_ids[:, : len(ids)] = torch.tensor(ids, dtype=torch.int32)
    edit_biases[:, :num_biases] = torch.tensor(list(biases.values()))
    lists = {"num_edits": len(ids), "min_len": MIN_LEN}
    table = pack_rows(
        [
            pack_row(num_logprobs=3),
            pack_row(num_logprobs=0, **lists),
            pack_row(restricted=True),
            pack_row(restricted=True, num_logprobs=3, **lists),
            pack_row(presence=1.0, num_logprobs=3),
        ]
    ).to(torch.get_default_device())
    order = [BOTH, PLAIN, -1, RESTRICTED, LISTED, PENALISED]
    raw = torch.randn(len(order), VOCAB)
    logits, kept = raw.clone(), torch.full((len(order), VOCAB), math.nan)
    edit_logits(
        logits, kept, torch.tensor(order, dtype=torch.int32), torch.full((len(order),), length, dtype=torch.int32),
        table, _mask(allowed).expand(5, -1).contiguous(), edit_ids, edit_biases, piece=PIECE,
    )  # fmt: skip
    for place, row in enumerate(order):
        expected = raw[place].clone()
        for token in range(VOCAB):
            if row in (LISTED, BOTH):
                expected[token] += biases.get(token, 0.0)
                if token in ENDS and length < MIN_LEN:
                    expected[token] = -math.inf
            if row in (RESTRICTED, BOTH) and token not in allowed:
                expected[token] = -math.inf
        assert torch.equal(logits[place], expected), (place, row)
        asked = row in (LISTED, BOTH, PENALISED)
        assert torch.equal(kept[place], raw[place]) if asked else bool(kept[place].isnan().all()), (
            place,
            row,
        )
