"""engine.runner.gpu_sampler against the plain sampler, whatever the rows ask for, and as rows change hands."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.core.contract import RowInit
from engine.messages import SamplingParams, TokenLogprobs
from engine.runner.gpu_sampler import MAX_EDITS, GPUSampler, to_token_logprobs
from engine.runner.sampler import Sampler

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
VOCAB, ROWS, POSITIONS, PROMPT = 97, 10, 40, 9
EOS = (3, 96)


def _params(**settings: Any) -> SamplingParams:
    return SamplingParams(**({"seed": 1, "max_tokens": 9} | settings))


def _random_params(draw: random.Random) -> SamplingParams:
    """A few settings at a time, so that rows of all kinds stand side by side."""
    tokens = draw.sample(range(VOCAB), 60)
    kinds: dict[str, Any] = {
        "temperature": draw.choice([0.0, 0.3, 1.0, 1.7]),
        "top_p": draw.choice([0.0, 0.4, 0.95]),
        "top_k": draw.choice([1, 5, 60, 1000]),
        "min_p": draw.choice([0.01, 0.3]),
        "repetition_penalty": draw.choice([0.7, 1.3]),
        "presence_penalty": draw.choice([-1.0, 0.8]),
        "frequency_penalty": draw.choice([-0.4, 1.1]),
        "logit_bias": {token: draw.uniform(-3, 3) for token in tokens[:20]},
        "allowed_token_ids": tuple(tokens[5:]),
        "bad_words": tuple(
            tuple(draw.randrange(VOCAB) for _ in range(size))
            for size in (1, 1, 2, 2, 3, 16)
            for _ in range(9)
        ),
        "min_tokens": draw.choice([1, 200]),
        "stop_token_ids": tuple(tokens[:4]),
        "ignore_eos": draw.random() < 0.5,
        "num_logprobs": draw.choice([0, 1, 7, 20]),
    }
    chosen = draw.sample(sorted(kinds), draw.randrange(len(kinds)))
    return _params(seed=draw.getrandbits(64), **{name: kinds[name] for name in chosen})


def _init(row: int, params: SamplingParams) -> RowInit:
    return RowInit(row, [0] * PROMPT, PROMPT, params, ())


def _step(
    sampler: GPUSampler, logits: Tensor, rows: list[int], lens: list[int], tokens: Tensor
) -> tuple[list[int], dict[int, TokenLogprobs]]:
    def ints(values: list[int]) -> Tensor:
        return torch.tensor([*values, -1], dtype=torch.int32, device=DEVICE)

    padded = torch.cat((logits, logits[:1])).to(DEVICE)
    out = ints([-9] * len(rows))
    sampler.sample(padded, ints(rows), ints(lens), tokens.to(DEVICE), out)
    assert int(out[-1]) == -1, "padding is not sampled"
    found = sampler.logprobs(len(rows)).cpu()
    return out[:-1].tolist(), to_token_logprobs(found, sampler.logprob_counts(rows), rows)


def _sampler() -> GPUSampler:
    return GPUSampler(ROWS, VOCAB, EOS, DEVICE)


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_equals_the_plain_sampler(seed: int, scale: float) -> None:
    draw = random.Random(seed)
    plain, ours = Sampler(ROWS, VOCAB, EOS, torch.device("cpu")), _sampler()
    for _ in range(2):
        params = {row: _random_params(draw) for row in draw.sample(range(ROWS), ROWS - 2)}
        ours.set_rows([_init(row, settings) for row, settings in params.items()])
        for row, settings in params.items():
            plain.set_row(row, settings, PROMPT)
        rows, logits = list(params), torch.randn(len(params), VOCAB) * scale
        lens = [draw.randrange(PROMPT, POSITIONS) for _ in rows]
        tokens = torch.randint(0, VOCAB, (ROWS, POSITIONS), dtype=torch.int32)
        expected = plain.sample(logits.clone(), rows, lens, tokens)
        got, logprobs = _step(ours, logits, rows, lens, tokens)
        assert got == expected.token_ids.tolist(), [params[row] for row in rows]
        raw = torch.log_softmax(logits.double(), -1)
        assert set(logprobs) == {row for row in rows if params[row].num_logprobs is not None}
        for row, found in logprobs.items():
            line, token, count = raw[rows.index(row)], got[rows.index(row)], params[row].num_logprobs
            assert found.rank == 1 + int((line > line[token]).sum())
            assert found.token_logprob == pytest.approx(float(line[token]), abs=1e-5)
            assert found.top_ids == line.topk(count or 0).indices.tolist()
            assert found.top_logprobs == pytest.approx(line[found.top_ids].tolist(), abs=1e-5)


def test_a_row_keeps_nothing_of_its_last_owner(seed: int) -> None:
    sampler, tokens = _sampler(), torch.zeros(ROWS, POSITIONS, dtype=torch.int32)
    logits = torch.randn(1, VOCAB)
    busy = _params(
        top_k=3,
        presence_penalty=2.0,
        logit_bias={5: 9.0},
        allowed_token_ids=(5, 6),
        min_tokens=9,
        num_logprobs=2,
    )
    sampler.set_rows([_init(4, busy)])
    assert _step(sampler, logits, [4], [12], tokens)[0][0] in (5, 6)
    assert not sampler.all_greedy([4])
    sampler.clear_row(4)
    sampler.set_rows([_init(4, _params(temperature=0.0))])
    assert sampler.all_greedy([4])
    assert _step(sampler, logits, [4], [12], tokens) == ([int(logits.argmax())], {})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"logit_bias": {VOCAB: 1.0}}, "logit_bias names token 97"),
        ({"num_logprobs": 21}, "num_logprobs must be at most 20"),
        ({"bad_words": ((5, VOCAB),)}, "bad_words names"),
        ({"bad_words": ((),)}, "bad_words names"),
        ({"bad_words": ((1,) * 17,)}, "at most 256 of 16 tokens"),
        ({"bad_words": ((1,),) * 257}, "at most 256 of 16 tokens"),
    ],
)
def test_unusable_settings_are_reported_and_drawn_as_greedy(
    seed: int, settings: dict[str, Any], message: str
) -> None:
    sampler, logits = _sampler(), torch.randn(2, VOCAB)
    sampler.set_rows([_init(0, _params(**settings)), _init(1, _params(temperature=0.0))])
    assert message in sampler.errors([0, 1])[0]
    assert sampler.errors([1]) == {}
    drawn, _ = _step(sampler, logits, [0, 1], [9, 9], torch.zeros(ROWS, POSITIONS, dtype=torch.int32))
    assert drawn == logits.argmax(-1).tolist()
    sampler.clear_row(0)
    assert sampler.errors([0]) == {}


def test_too_many_edited_tokens_are_refused() -> None:
    sampler = GPUSampler(1, MAX_EDITS + 9, EOS, DEVICE)
    sampler.set_rows([_init(0, _params(logit_bias=dict.fromkeys(range(MAX_EDITS + 1), 1.0)))])
    assert f"at most {MAX_EDITS}" in sampler.errors([0])[0]
    sampler.set_rows([_init(0, _params(logit_bias=dict.fromkeys(range(MAX_EDITS), 1.0)))])
    assert sampler.errors([0]) == {}


def test_nothing_to_choose_is_marked(seed: int) -> None:
    sampler = _sampler()
    only_end = _params(allowed_token_ids=(3,), min_tokens=5, num_logprobs=1)
    sampler.set_rows([_init(2, only_end), _init(7, _params())])
    logits = torch.randn(2, VOCAB)
    tokens = torch.zeros(ROWS, POSITIONS, dtype=torch.int32)
    drawn, _ = _step(sampler, logits, [2, 7], [PROMPT + 4, PROMPT], tokens)
    assert drawn[0] == -1
    assert drawn[1] >= 0
    assert _step(sampler, logits, [2, 7], [PROMPT + 5, PROMPT], tokens)[0] == [3, drawn[1]]
