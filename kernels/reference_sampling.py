"""The ops of sampling in plain torch: the CPU path, and the oracle of the Triton kernels.

Called through `kernels/penalties.py` and `kernels/sample.py`. R sampled rows, V vocabulary, L length of the
longest history, C survivors. Works on fp32 logits of any device; probabilities that decide who survives are
fp64. Knows nothing of requests: who is greedy or penalised stands in the tensors.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from kernels import philox
from kernels.peaks import argmax, top_ids

_RANKED_WIDTHS = (256, 4096)
"""Numbers of highest logits that are ranked before the whole row is."""
_RACE_PIECE = 65_536
"""Tokens whose noise stays in a core's second-level cache."""


def choose_greedily(
    logits: Tensor, token_ids: Tensor, tokens: Tensor, rows: Tensor, positions: Tensor
) -> None:
    """token_ids[s] = the likeliest of logits[s] [S, V], −1 if that is not finite; tokens[rows[s], positions[s]] =
    max(that, 0) where rows[s] ≥ 0. Bytes: the logits once."""
    best, ids = logits.max(dim=-1)
    token_ids.copy_(torch.where(best.isfinite(), ids, -1))
    real = rows >= 0
    tokens[rows[real].long(), positions[real].long()] = token_ids[real].clamp_min(0)


def apply_penalties(
    logits: Tensor,
    tokens: Tensor,
    lens: Tensor,
    prompt_lens: Tensor,
    repetition: Tensor,
    presence: Tensor,
    frequency: Tensor,
) -> None:
    """In place: l /= repetition if l > 0 else l *= repetition, for tokens in the prompt or the answer; then
    l −= frequency · count + presence · (count > 0), with the count in the answer alone.

    logits [R, V] fp32; tokens [R, L] the sequences so far, valid below lens [R], of which the first
    prompt_lens [R] are the prompt; the three factors [R] fp32.
    Bytes: 8·R·V to clear and read counts; the logits only at the L tokens.
    """
    positions = torch.arange(tokens.shape[1], device=tokens.device)
    valid = positions < lens[:, None]
    # Every use of a token writes the same value, so that repeats do no harm; token 0 stands in for padding.
    history = torch.where(valid, tokens, tokens[:, :1]).long()
    answered = (valid & (positions >= prompt_lens[:, None])).to(logits.dtype)
    counts = torch.zeros_like(logits).scatter_add_(1, history, answered).gather(1, history)
    seen = logits.gather(1, history)
    scaled = torch.where(seen > 0, seen / repetition[:, None], seen * repetition[:, None])
    penalty = frequency[:, None] * counts + presence[:, None] * (counts > 0)
    logits.scatter_(1, history, scaled - penalty)


def sample(
    logits: Tensor,
    temperature: Tensor,
    min_p: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    seed: Tensor,
    position: Tensor,
) -> Tensor:
    """One token per row of processed logits [R, V] fp32 (−inf: banned). Returns ids [R] int64.

    temperature 0: the highest logit, lowest id first. Else the survivors (see `survivors`) race: the winner
    is argmax of logit / temperature − log E with E the exponential noise of (seed, token, position), which
    draws a token with its probability among the survivors.
    temperature fp32, min_p and top_p fp64, top_k int64 (0: off), seed int64, position int64 of the token
    to be sampled, all [R]. A row without a finite logit gives any id: the caller must not ask.
    """
    out = argmax(logits)
    drawn = temperature > 0
    filtered = drawn & ((min_p > 0) | (top_k > 0) | (top_p < 1))
    rows = filtered.nonzero()[:, 0]
    if len(rows):
        ids, x = survivors(logits[rows], temperature[rows], min_p[rows], top_k[rows], top_p[rows])
        bits = philox.token_bits(seed[rows, None], ids, position[rows, None])
        winner = (x - philox.exponential(bits).log()).argmax(dim=-1, keepdim=True)
        out[rows] = ids.gather(1, winner)[:, 0]
    rows = (drawn & ~filtered).nonzero()[:, 0]
    if len(rows):
        out[rows] = _race_all(logits[rows] / temperature[rows, None], seed[rows], position[rows])
    return out


def survivors(
    logits: Tensor, temperature: Tensor, min_p: Tensor, top_k: Tensor, top_p: Tensor
) -> tuple[Tensor, Tensor]:
    """The tokens of each row that min_p, then top_k, then top_p leave: ids and logit / temperature, [R, C].

    Tokens are ranked by logit, equal ones by lower id. min_p keeps p ≥ min_p · max p; top_k the first k ranks
    of those; top_p the shortest prefix of those whose share of their probability reaches top_p, at least one
    token. Probabilities are fp64. Unused places after a row's last survivor hold −inf.
    """
    num_rows, vocab_size = logits.shape
    ids = torch.zeros(num_rows, 1, dtype=torch.int64, device=logits.device)
    x = torch.full((num_rows, 1), float("-inf"), device=logits.device)
    pending = torch.arange(num_rows, device=logits.device)
    for width in (*_RANKED_WIDTHS, vocab_size):
        settings = (setting[pending] for setting in (temperature, min_p, top_k, top_p))
        found_ids, found, closed = _survivors_within(logits[pending], min(width, vocab_size), *settings)
        done = pending[closed]
        grow = max(0, found.shape[1] - x.shape[1])
        ids, x = functional.pad(ids, (0, grow)), functional.pad(x, (0, grow), value=float("-inf"))
        ids[done, : found.shape[1]], x[done, : found.shape[1]] = found_ids[closed], found[closed]
        pending = pending[~closed]
        if not len(pending):
            break
    return ids, x


def _survivors_within(
    logits: Tensor, width: int, temperature: Tensor, min_p: Tensor, top_k: Tensor, top_p: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """`survivors` from the `width` highest logits of each row, and [R] bool: were those enough?

    They were if the cut fell above the lowest of them: logits equal to that one may be missing.
    """
    ids, ranked = _rank(logits, width)
    x = ranked / temperature[:, None]
    weights = (x.double() - x[:, :1].double()).exp()
    kept = (weights >= min_p[:, None]) & (x > float("-inf"))
    kept &= (torch.arange(width, device=x.device) < top_k[:, None]) | (top_k == 0)[:, None]
    bounded = (min_p > 0) | (top_k > 0)
    reach = torch.where(bounded, kept.sum(-1), 0)
    total = (weights * kept).sum(-1)
    open_rows = (~bounded).nonzero()[:, 0]
    if len(open_rows):
        total[open_rows] += _weight_outside(logits, x, temperature, open_rows)
    before = (weights * kept).cumsum(-1) - weights
    kept &= (before < (top_p * total)[:, None]) | (top_p >= 1)[:, None]
    kept[:, 0] = True
    reach = torch.maximum(reach, kept.sum(-1))
    closed = (ranked.gather(1, reach[:, None] - 1) > ranked[:, -1:])[:, 0]
    if width == logits.shape[1]:
        closed = torch.ones_like(closed)
    count = int(kept[closed].sum(-1).max()) if bool(closed.any()) else 1
    return ids[:, :count], x.masked_fill(~kept, float("-inf"))[:, :count], closed


def _rank(logits: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The `width` highest logits of each row in rank order: ids and logits [R, width]."""
    ids = top_ids(logits, width).sort(dim=-1).values
    ranked, order = logits.gather(1, ids).sort(dim=-1, descending=True, stable=True)
    return ids.gather(1, order), ranked


def _weight_outside(logits: Tensor, x: Tensor, temperature: Tensor, rows: Tensor) -> Tensor:
    """exp(logit / temperature − peak), summed over the tokens that are not among the ranked ones."""
    peak = x[rows, :1]
    everything = (logits[rows] / temperature[rows, None]).sub_(peak).exp_().sum(-1, dtype=torch.float64)
    inside = (x[rows] - peak).exp().sum(-1, dtype=torch.float64)
    return (everything - inside).clamp_min(0)


def _race_all(x: Tensor, seed: Tensor, position: Tensor) -> Tensor:
    """The winners [R] of a race between all tokens, a cache-sized piece of the vocabulary at a time."""
    num_rows, vocab_size = x.shape
    piece = max(4, _RACE_PIECE // num_rows // 4 * 4)
    best = torch.full((num_rows,), float("-inf"), device=x.device)
    winner = torch.zeros(num_rows, dtype=torch.int64, device=x.device)
    for start in range(0, vocab_size, piece):
        stop = min(vocab_size, start + piece)
        noise = philox.exponential(philox.range_bits(seed, position, start, stop))
        score, index = (x[:, start:stop] - noise.log_()).max(dim=-1)
        winner = torch.where(score > best, index + start, winner)
        best = torch.maximum(best, score)
    return winner
