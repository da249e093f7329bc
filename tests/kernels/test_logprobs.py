"""kernels.logprobs against a float64 log-softmax and a sort."""

from __future__ import annotations

import math

import pytest
import torch

from kernels.logprobs import MAX_LOGPROBS, allocate_logprobs, find_logprobs
from kernels.sampling_table import pack_row, pack_rows

pytestmark = pytest.mark.usefixtures("seed")

WANTED = [-1, 0, 1, 5, 20, 20]
EDITED = [False, False, True, False, False, True]


@pytest.mark.parametrize(("vocab", "piece"), [(9001, 8192), (200, 32), (21, 8192)])
@pytest.mark.parametrize("ties", [False, True])
def test_matches_a_sort(vocab: int, piece: int, ties: bool) -> None:
    rows = len(WANTED)
    raw = torch.randint(-4, 4, (rows, vocab)).float() if ties else torch.randn(rows, vocab) * 3
    raw[:, 7] = -math.inf
    edited = torch.tensor(EDITED)[:, None]
    logits, kept = torch.where(edited, math.nan, raw), torch.where(edited, raw, math.nan)
    table = pack_rows(
        [pack_row(num_logprobs=n, presence=float(e)) for n, e in zip(WANTED, EDITED, strict=True)]
    ).to(raw.device)
    chosen = torch.randint(8, vocab, (rows,), dtype=torch.int32)
    out = allocate_logprobs(rows, vocab, raw.device, piece=piece)
    out.found.fill_(-99)
    find_logprobs(out, logits, kept, torch.arange(rows, dtype=torch.int32), chosen, table)
    ints, reals = (
        out.found[:, : 1 + MAX_LOGPROBS],
        out.found[:, 1 + MAX_LOGPROBS :].contiguous().view(torch.float32),
    )
    assert bool((out.found[0] == -99).all())
    expected = torch.log_softmax(raw.double(), -1)
    for row, wanted in list(enumerate(WANTED))[1:]:
        token = int(chosen[row])
        assert ints[row, 0] == 1 + (raw[row] > raw[row, token]).sum()
        best = raw[row].sort(descending=True, stable=True).indices[:wanted]
        assert ints[row, 1 : 1 + wanted].tolist() == best.tolist()
        close = torch.cat((expected[row, token][None], expected[row, best]))
        torch.testing.assert_close(reals[row, : 1 + wanted].double(), close, atol=5e-6, rtol=1e-6)


def test_a_row_that_chose_nothing_harms_nobody() -> None:
    logits = torch.randn(2, 64)
    out = allocate_logprobs(2, 64, logits.device)
    chosen, lines = torch.tensor([-1, 3], dtype=torch.int32), torch.tensor([0, 0], dtype=torch.int32)
    table = pack_rows([pack_row(num_logprobs=2)]).to(logits.device)
    find_logprobs(out, logits, logits, lines, chosen, table)
    assert out.found[1, 0] == 1 + (logits[1] > logits[1, 3]).sum()
    assert out.found[1, 1:3].tolist() == logits[1].topk(2).indices.tolist()
