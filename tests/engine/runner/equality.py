"""When two runs of one request count as equal: same tokens, or a first difference where two were level."""

from __future__ import annotations

import torch

from kernels import philox
from tests.engine.runner.driver import Running


def assert_same_tokens(one: Running, other: Running, margin: float) -> None:
    """Both ran with log-probabilities of the whole vocabulary. Where they first differ, the two tokens' scores in `one`
    (noise included) must lie within `margin`, which is of logits: a temperature below 1 stretches it as it does them."""
    if one.sampling.temperature > 0:
        margin /= min(1.0, one.sampling.temperature)
    assert len(one.outputs) == len(other.outputs) > 0
    for index, (a, b) in enumerate(zip(one.outputs, other.outputs, strict=True)):
        if a != b:
            scores = _scores(one, index)
            assert abs(scores[a] - scores[b]) < margin, (index, a, b, scores[a], scores[b])
            return


def _scores(row: Running, index: int) -> dict[int, float]:
    """What the draw compared at output `index`: penalised logit over temperature, less the noise."""
    found, sampling = row.logprobs[index], row.sampling
    ids = torch.tensor(found.top_ids)
    logits = torch.tensor(found.top_logprobs)
    history = row.tokens[row.num_prompt : row.num_prompt + index]
    seen = torch.tensor([token in history for token in found.top_ids])
    count = torch.tensor([history.count(token) for token in found.top_ids])
    logits = logits - seen * sampling.presence_penalty - count * sampling.frequency_penalty
    if sampling.temperature > 0:
        bits = philox.token_bits(torch.tensor([sampling.seed]), ids, torch.tensor([row.num_prompt + index]))
        logits = logits / sampling.temperature - philox.exponential(bits).log()
    return dict(zip(found.top_ids, logits.tolist(), strict=True))
