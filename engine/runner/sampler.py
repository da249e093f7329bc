"""From a step's logits to its next tokens: masks, penalties, the draw, and log-probabilities.

Place in the path: the runner calls `sample` with the head's output for the sampled rows. Order: grammar or allowed
tokens → logit bias → min_tokens → penalties → temperature → min_p → top-k → top-p → exponential race
(`kernels.sample`); log-probabilities are those of the logits as they came. A row's settings come once, with
its `RowInit`, and live in tensors indexed by row. Knows no model and no request; never raises for one row's
sake: a row whose settings are unusable, or whose logits leave nothing to choose, fails alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.core.contract import StepResult
from engine.grammar.rows import unpack
from engine.messages import SamplingParams, TokenLogprobs
from engine.runner.row_settings import RowBook, RowSettings, SettingsError
from kernels.peaks import argmax
from kernels.penalties import apply_penalties
from kernels.sample import sample

_TEMPERATURE, _MIN_P, _TOP_P, _REPETITION, _PRESENCE, _FREQUENCY = range(6)
_TOP_K, _SEED, _PROMPT_LEN = range(3)

NOTHING_TO_CHOOSE = "no token can be chosen: all are forbidden, or the model's output is not a number"


@dataclass(frozen=True, slots=True)
class Drawn:
    """The outcome of one step, still on the device. S sampled rows, P of them with log-probabilities."""

    token_ids: Tensor
    """[S] int64; −1 where the chosen logit is not a number."""
    logprob_places: tuple[int, ...]
    """[P] indices into S."""
    logprob_counts: tuple[int, ...]
    """[P] how many alternatives each of them wants beside the chosen token."""
    logprobs: Tensor | None
    """[P, 1 + n] fp32: of the chosen token, then of the n most likely."""
    ranks: Tensor | None
    """[P] 1-based rank of the chosen token."""
    top_ids: Tensor | None
    """[P, n]."""


class Sampler(RowBook):
    """Settings of every row, and the draw."""

    def __init__(
        self, max_rows: int, vocab_size: int, eos_token_ids: tuple[int, ...], device: torch.device
    ) -> None:
        super().__init__(max_rows, vocab_size, eos_token_ids)
        self._device = device
        # On the host: a copy to a GPU at every admission would wait for the step that runs there.
        self._floats = torch.zeros(max_rows, 6, dtype=torch.float64)
        self._ints = torch.zeros(max_rows, 3, dtype=torch.int64)

    def set_row(self, row: int, params: SamplingParams, num_prompt_tokens: int) -> None:
        """Take a row's settings. Unusable ones are remembered and reported when the row samples."""
        try:
            settings = RowSettings.of(
                params, num_prompt_tokens, self._vocab_size, self._eos_token_ids, self._device
            )
        except SettingsError as error:
            self._rows[row] = error
            return
        self._rows[row] = settings
        factors = (params.repetition_penalty, params.presence_penalty, params.frequency_penalty)
        floats = (params.temperature, params.min_p, params.top_p, *factors)
        ints = (params.top_k, settings.seed, num_prompt_tokens)
        self._floats[row] = torch.tensor(floats, dtype=torch.float64)
        self._ints[row] = torch.tensor(ints)

    def sample(self, logits: Tensor, rows: Sequence[int], lens: Sequence[int], tokens: Tensor) -> Drawn:
        """Choose a token per row. `logits` [S, V] fp32 are overwritten; `lens` count each row's tokens in
        `tokens` [rows, positions]; the chosen one belongs at position `lens`."""
        settings = [self._settings(row) for row in rows]
        wanted = tuple(i for i, entry in enumerate(settings) if entry.num_logprobs is not None)
        raw = logits[list(wanted)] if wanted else None
        for i, words in self.masks(rows, lens).items():
            banned = torch.from_numpy(~unpack(words, self._vocab_size))
            logits[i].masked_fill_(banned.to(self._device), float("-inf"))
        for i, entry in enumerate(settings):
            if entry.has_edits:
                entry.edit(logits[i], lens[i], tokens[rows[i]])
        if all(entry.greedy and not entry.penalised for entry in settings):
            token_ids = argmax(logits)
        else:
            token_ids = self._penalise_and_draw(logits, settings, rows, lens, tokens)
        usable = logits.gather(1, token_ids[:, None])[:, 0].isfinite()
        kept = torch.where(usable, token_ids, -1)
        if raw is None:
            return Drawn(kept, (), (), None, None, None)
        counts = tuple(settings[i].num_logprobs or 0 for i in wanted)
        found = _log_probabilities(raw, token_ids[list(wanted)], max(counts))
        return Drawn(kept, wanted, counts, *found)

    def _penalise_and_draw(
        self,
        logits: Tensor,
        settings: Sequence[RowSettings],
        rows: Sequence[int],
        lens: Sequence[int],
        tokens: Tensor,
    ) -> Tensor:
        row_index = torch.tensor(rows, device=self._device)
        positions = torch.tensor(lens, device=self._device)
        floats, ints = (table[list(rows)].to(self._device) for table in (self._floats, self._ints))
        penalised = [i for i, entry in enumerate(settings) if entry.penalised]
        if penalised:
            longest = max(lens[i] for i in penalised)
            some = logits[penalised]
            factors = floats[penalised].float()
            apply_penalties(
                some,
                tokens[row_index[penalised], :longest],
                positions[penalised],
                ints[penalised, _PROMPT_LEN],
                factors[:, _REPETITION],
                factors[:, _PRESENCE],
                factors[:, _FREQUENCY],
            )
            logits[penalised] = some
        return sample(
            logits,
            floats[:, _TEMPERATURE].float(),
            floats[:, _MIN_P],
            ints[:, _TOP_K],
            floats[:, _TOP_P],
            ints[:, _SEED],
            positions,
        )


def to_step_result(
    step: int,
    rows: Sequence[int],
    token_ids: Sequence[int],
    errors: Mapping[int, str],
    logprobs: Mapping[int, TokenLogprobs],
    prompt_logprobs: dict[int, list[TokenLogprobs]],
    refused: frozenset[int],
    embeddings: dict[int, bytes],
) -> StepResult:
    """What the core hears: `token_ids` on the host, −1 where a row had nothing to choose; `errors` as they were
    when the step was launched."""
    tokens: dict[int, int] = {}
    failures: dict[int, str] = {}
    for row, token_id in zip(rows, token_ids, strict=True):
        if row not in errors and token_id >= 0:
            tokens[row] = token_id
        else:
            failures[row] = errors.get(row, NOTHING_TO_CHOOSE)
    kept = {row: value for row, value in logprobs.items() if row in tokens}
    return StepResult(step, tokens, failures, kept, prompt_logprobs, refused & failures.keys(), embeddings)


def to_token_logprobs(drawn: Drawn, rows: Sequence[int]) -> dict[int, TokenLogprobs]:
    """The log-probabilities on the host, by row, each cut to what its row asked for."""
    if drawn.logprobs is None or drawn.ranks is None or drawn.top_ids is None:
        return {}
    found = zip(
        drawn.logprob_places,
        drawn.logprob_counts,
        drawn.logprobs.tolist(),
        drawn.ranks.tolist(),
        drawn.top_ids.tolist(),
        strict=True,
    )
    return {
        rows[place]: TokenLogprobs(values[0], rank, top_ids[:count], values[1 : count + 1])
        for place, count, values, rank, top_ids in found
    }


def _log_probabilities(raw: Tensor, token_ids: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """[P, 1 + count] log-probabilities, [P] ranks, [P, count] ids of the most likely tokens."""
    logprobs = torch.log_softmax(raw, dim=-1)
    chosen = logprobs.gather(1, token_ids[:, None])
    ranks = (logprobs > chosen).sum(-1) + 1
    top, top_ids = logprobs.topk(count, dim=-1)
    return torch.cat((chosen, top), dim=1), ranks, top_ids
