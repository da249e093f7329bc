"""engine.runner.sampler: the order of its stages, log-probabilities, failures of one row, the seed's reach."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from engine.messages import SamplingParams, TokenLogprobs
from engine.runner.sampler import Drawn, Sampler, to_token_logprobs

VOCAB = 60
EOS = (3, 4)


def _params(**settings: object) -> SamplingParams:
    return SamplingParams(**({"seed": 1, "max_tokens": 9} | settings))  # type: ignore[arg-type]  # test shorthand


def _sampler(rows: dict[int, SamplingParams], prompt: int = 4) -> Sampler:
    sampler = Sampler(32, VOCAB, EOS, torch.device("cpu"))
    for row, params in rows.items():
        sampler.set_row(row, params, prompt)
    return sampler


def _draw(
    logits: Tensor, rows: dict[int, SamplingParams], length: int = 6, tokens: Tensor | None = None
) -> Drawn:
    sampler = _sampler(rows)
    history = torch.zeros(32, 16, dtype=torch.int32) if tokens is None else tokens
    return sampler.sample(logits.clone(), list(rows), [length] * len(rows), history)


def _only(drawn: Drawn) -> int:
    assert drawn.token_ids.tolist()[0] >= 0
    return int(drawn.token_ids[0])


def test_greedy_takes_the_highest(seed: int) -> None:
    logits = torch.randn(3, VOCAB)
    drawn = _draw(logits, {row: _params(temperature=0) for row in (4, 9, 2)})
    assert torch.equal(drawn.token_ids, logits.argmax(-1))
    assert (drawn.token_ids >= 0).all()


def test_allowed_then_bias_then_min_tokens(seed: int) -> None:
    logits = torch.randn(1, VOCAB)
    allowed = _params(temperature=0, allowed_token_ids=(7, 8, 3))
    expected = max((7, 8, 3), key=lambda i: float(logits[0, i]))
    assert _only(_draw(logits, {0: allowed})) == expected
    biased = _params(temperature=0, logit_bias={8: 50.0, 9: 90.0, 3: 70.0}, allowed_token_ids=(7, 8, 3))
    assert _only(_draw(logits, {0: biased})) == 3
    waiting = _params(temperature=0, min_tokens=3, logit_bias={8: 50.0, 3: 70.0}, allowed_token_ids=(7, 8, 3))
    assert _only(_draw(logits, {0: waiting}, length=6)) == 8
    assert _only(_draw(logits, {0: waiting}, length=7)) == 3


def test_min_tokens_bans_end_and_stop_tokens_unless_end_is_ignored(seed: int) -> None:
    logits = torch.randn(1, VOCAB)
    logits[0, 3], logits[0, 11], logits[0, 20] = 30, 20, 10
    waiting = _params(temperature=0, min_tokens=3, stop_token_ids=(11,))
    assert _only(_draw(logits, {0: waiting})) == 20
    ignoring = _params(temperature=0, min_tokens=3, stop_token_ids=(11,), ignore_eos=True)
    assert _only(_draw(logits, {0: ignoring})) == 3


def test_penalties_reach_their_rows_only(seed: int) -> None:
    logits = torch.zeros(3, VOCAB)
    logits[:, 5], logits[:, 6], logits[:, 7] = 4.0, 3.5, 3.0
    tokens = torch.zeros(32, 16, dtype=torch.int32)
    tokens[:, :6] = torch.tensor([5, 0, 0, 0, 6, 6])
    rows = {
        1: _params(temperature=0, repetition_penalty=2.0),
        2: _params(temperature=0),
        3: _params(temperature=0, frequency_penalty=1.0, logit_bias={5: -10.0}),
    }
    assert _draw(logits, rows, tokens=tokens).token_ids.tolist() == [7, 5, 7]


def test_log_probabilities_are_raw_and_cut_to_what_was_asked(seed: int) -> None:
    logits = torch.randn(3, VOCAB) * 2
    rows = {
        5: _params(temperature=0, logit_bias={9: 99.0}, num_logprobs=3),
        6: _params(temperature=0),
        7: _params(temperature=0.5, top_k=4, num_logprobs=0),
    }
    drawn = _draw(logits, rows)
    found = to_token_logprobs(drawn, list(rows))
    expected = torch.log_softmax(logits.double(), -1)
    assert set(found) == {5, 7}
    assert drawn.token_ids[0] == 9
    for place, row in ((0, 5), (2, 7)):
        token = int(drawn.token_ids[place])
        assert math.isclose(found[row].token_logprob, float(expected[place, token]), abs_tol=1e-5)
        assert found[row].rank == 1 + int((logits[place] > logits[place, token]).sum())
    best = expected[0].topk(3)
    assert found[5].top_ids == best.indices.tolist()
    assert found[5].top_logprobs == pytest.approx(best.values.tolist(), abs=1e-5)
    assert found[7] == TokenLogprobs(found[7].token_logprob, found[7].rank, [], [])


def test_the_draw_depends_on_seed_and_position_not_on_the_batch(seed: int) -> None:
    logits = torch.randn(12, VOCAB)
    rows = {
        row: _params(seed=1000 + row, top_p=0.9 if row % 2 else 1.0, presence_penalty=0.3 * (row % 3))
        for row in range(12)
    }
    together = _draw(logits, rows)
    for row, params in rows.items():
        # Another row number, alone in its batch: the same token.
        assert _only(_draw(logits[row : row + 1], {31 - row: params})) == together.token_ids[row]
    alike = {row: _params(seed=5) for row in range(12)}
    same = torch.zeros(12, VOCAB)
    assert len(set(_draw(same, alike).token_ids.tolist())) == 1
    by_position = [_only(_draw(same[:1], {0: _params(seed=5)}, length=n)) for n in range(4, 16)]
    by_seed = [_only(_draw(same[:1], {0: _params(seed=n)})) for n in range(12)]
    assert len(set(by_position)) > 6
    assert len(set(by_seed)) > 6


@pytest.mark.parametrize("big", [2**63 - 1, 2**63, 2**64 - 1])
def test_seeds_of_64_bits(big: int) -> None:
    logits = torch.zeros(1, VOCAB)
    assert 0 <= _only(_draw(logits, {0: _params(seed=big)})) < VOCAB


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"logit_bias": {VOCAB: 1.0}}, "logit_bias names token 60"),
        ({"allowed_token_ids": (1, -1)}, "allowed_token_ids names token -1"),
        ({"min_tokens": 1, "stop_token_ids": (999,)}, "stop_token_ids names token 999"),
        ({"num_logprobs": VOCAB + 1}, "num_logprobs must be between 0 and 60"),
    ],
)
def test_unusable_settings_fail_their_row_only(seed: int, settings: dict[str, object], message: str) -> None:
    logits = torch.randn(2, VOCAB)
    rows = {0: _params(**settings), 1: _params(temperature=0)}
    sampler = _sampler(rows)
    drawn = sampler.sample(logits.clone(), [0, 1], [6, 6], torch.zeros(32, 16, dtype=torch.int32))
    assert message in sampler.errors([0, 1])[0]
    assert sampler.errors([1]) == {}
    assert drawn.token_ids[1] == logits[1].argmax()
    sampler.set_row(0, _params(), 4)
    assert sampler.errors([0, 1]) == {}


@pytest.mark.parametrize(
    "params", [_params(temperature=0), _params(), _params(top_k=5), _params(top_p=0.5), _params(min_p=0.1)]
)
@pytest.mark.parametrize("poison", [math.nan, -math.inf, math.inf])
def test_a_row_without_a_usable_logit_is_marked(seed: int, params: SamplingParams, poison: float) -> None:
    logits = torch.randn(3, VOCAB)
    logits[1] = poison
    drawn = _draw(logits, dict.fromkeys((0, 1, 2), params))
    assert (drawn.token_ids >= 0).tolist() == [True, False, True]
    alone = _draw(logits[2:], {2: params})
    assert drawn.token_ids[2] == alone.token_ids[0]
