"""Log-probabilities of the prompt's own tokens, for the rows that ask for them.

Place in the path: a runner hands over a step's hidden states right after the forward pass; what is found goes to the
host with the step's result. The head runs for a few positions at a time, since the logits of a whole prompt would
take more memory than the model. As everywhere, log-probabilities are those of the logits as they came. Knows no
requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.core.contract import RowWork
from engine.layers.batch import CausalLM
from engine.messages import TokenLogprobs
from engine.runner.row_settings import RowBook
from engine.runner.staging import HostCopies

CHUNK_ROWS = 32
"""Positions whose logits exist at a time."""


@dataclass(frozen=True, slots=True)
class Span:
    """Positions of one row and step whose next tokens stand in the prompt."""

    row: int
    first: int
    """Index of the first one among the step's tokens."""
    start: int
    """Its position in the row."""
    count: int
    num_top: int


def spans_of(work: Sequence[RowWork], book: RowBook) -> list[Span]:
    """What a step must look at, in the order of `work`."""
    spans, first = [], 0
    for item in work:
        wanted = book.prompt_logprobs(item.row)
        if wanted is not None:
            num_top, num_prompt_tokens = wanted
            count = min(item.num_tokens, num_prompt_tokens - 1 - item.start)
            if count > 0:
                spans.append(Span(item.row, first, item.start, count, num_top))
        first += item.num_tokens
    return spans


def score(model: CausalLM, hidden: Tensor, spans: Sequence[Span], tokens: Tensor) -> list[Tensor]:
    """For each span [count, 2 + 2·num_top] int32: rank and the likeliest ids, then the bits of the fp32
    log-probabilities of the token itself and of those. `hidden` [T, H] of the step; `tokens` [rows, positions]."""
    found = []
    for span in spans:
        lines = []
        for begin in range(0, span.count, CHUNK_ROWS):
            end = min(begin + CHUNK_ROWS, span.count)
            logits = model.logits(hidden[span.first + begin : span.first + end])
            following = tokens[span.row, span.start + 1 + begin : span.start + 1 + end].long()
            lines.append(_lines(logits, following, span.num_top))
        found.append(torch.cat(lines))
    return found


class PromptFetch:
    """What `score` found, on its way to the host."""

    def __init__(self, spans: Sequence[Span], scored: Sequence[Tensor]) -> None:
        self._spans = spans
        self._copies = HostCopies(scored)

    def fetched(self) -> dict[int, list[TokenLogprobs]]:
        """By row; waits for the copy."""
        return to_prompt_logprobs(self._spans, self._copies.fetched())


def to_prompt_logprobs(spans: Sequence[Span], scored: Sequence[Tensor]) -> dict[int, list[TokenLogprobs]]:
    """By row, in the order of positions; `scored` on the host."""
    result = {}
    for span, lines in zip(spans, scored, strict=True):
        ints = lines[:, : 1 + span.num_top].tolist()
        reals = lines[:, 1 + span.num_top :].contiguous().view(torch.float32).tolist()
        result[span.row] = [
            TokenLogprobs(values[0], ids[0], ids[1:], values[1:])
            for ids, values in zip(ints, reals, strict=True)
        ]
    return result


def _lines(logits: Tensor, following: Tensor, num_top: int) -> Tensor:
    total = logits.logsumexp(-1, keepdim=True)
    chosen = logits.gather(1, following[:, None])
    ranks = (logits > chosen).sum(-1, keepdim=True) + 1
    top, ids = logits.topk(num_top, dim=-1)
    reals = (torch.cat((chosen, top), dim=1) - total).float()
    return torch.cat((ranks.int(), ids.int(), reals.view(torch.int32)), dim=1)
