"""kernels.penalties against a loop over every token of the history."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels.penalties import apply_penalties, penalise_triton
from kernels.sampling_table import pack_row, pack_rows
from tests.kernels import oracles

pytestmark = pytest.mark.usefixtures("seed")

VOCAB = 23


def _naive(
    logits: Tensor, history: list[int], prompt: int, repetition: float, presence: float, frequency: float
) -> Tensor:
    out = logits.double().clone()
    for token in set(history):
        out[token] = out[token] / repetition if out[token] > 0 else out[token] * repetition
    for token in set(history[prompt:]):
        out[token] -= presence + frequency * history[prompt:].count(token)
    return out


Op = Callable[..., None]


def _on_device(
    logits: Tensor,
    tokens: Tensor,
    lens: Tensor,
    prompts: Tensor,
    repetition: Tensor,
    presence: Tensor,
    frequency: Tensor,
) -> None:
    """The Triton path with the same arguments; the rows in another order, with a gap."""
    rows = [
        pack_row(repetition=r, presence=p, frequency=f, prompt_len=n)
        for r, p, f, n in zip(
            repetition.tolist(), presence.tolist(), frequency.tolist(), prompts.tolist(), strict=True
        )
    ]
    order = [len(rows) - 1 - i for i in range(len(rows))]
    lines = torch.tensor([-1, *order], dtype=torch.int32)
    given = torch.cat((logits[:1], logits[order])).contiguous()
    before, uses = given[0].clone(), torch.zeros_like(given, dtype=torch.int32)
    lengths = torch.cat((lens[:1], lens[order])).int()
    penalise_triton(given, uses, lines, lengths, pack_rows(rows).to(logits.device), tokens, block=16)
    assert not uses.any(), "the counts must be gone for the next step"
    assert torch.equal(given[0], before)
    logits[order] = given[1:]


@pytest.fixture(params=[apply_penalties, _on_device], ids=["reference", "triton"])
def penalise(request: pytest.FixtureRequest) -> Op:
    op: Op = request.param
    return op


def test_matches_a_naive_loop_and_ignores_what_is_past_the_end(penalise: Op) -> None:
    rows, width = 6, 40
    logits = torch.randn(rows, VOCAB) * 3
    tokens = torch.randint(0, VOCAB, (rows, width), dtype=torch.int32)
    lens, prompts = torch.tensor([1, 40, 17, 8, 25, 40]), torch.tensor([1, 1, 17, 5, 20, 12])
    factors = torch.rand(3, rows) + torch.tensor([[0.7], [-0.5], [-0.5]])
    expected = torch.stack(
        [
            _naive(logits[r], tokens[r, : lens[r]].tolist(), int(prompts[r]), *factors[:, r].tolist())
            for r in range(rows)
        ]
    )
    penalise(logits, tokens, lens, prompts, *factors)
    oracles.assert_close(logits, expected)


def test_banned_tokens_stay_banned_and_neutral_factors_change_nothing(penalise: Op) -> None:
    logits = torch.randn(2, VOCAB)
    logits[:, 3] = float("-inf")
    before = logits.clone()
    tokens = torch.full((2, 4), 3, dtype=torch.int32)
    lens, prompts = torch.tensor([4, 4]), torch.tensor([1, 1])
    neutral = (torch.ones(2), torch.zeros(2), torch.zeros(2))
    penalise(logits, tokens, lens, prompts, *neutral)
    assert torch.equal(logits, before)
    penalise(logits, tokens, lens, prompts, torch.full((2,), 2.0), torch.ones(2), torch.ones(2))
    assert bool((logits[:, 3] == float("-inf")).all())
