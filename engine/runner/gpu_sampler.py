"""From a step's logits to its next tokens without waiting for the device: settings in a table there, kernels for all.

Place in the path: the GPU runner gives a row its settings when it is taken, and runs `sample` inside the graph of the
sampled rows, or a plain argmax where every row is `all_greedy`. The stages and their order are those of `sampler`,
which does the same on the CPU. Settings travel in pinned memory behind the steps that were launched before, so a row
that changes hands keeps its old ones until those are done. Everything is allocated once, for the most rows. Knows no
model and no request; a row whose settings are unusable is drawn as a greedy one and reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from engine.core.contract import RowInit
from engine.grammar.rows import Words
from engine.messages import SamplingParams, TokenLogprobs
from engine.runner.row_settings import RowBook, RowSettings, SettingsError
from kernels.bad_words import MAX_WORD_TOKENS, MAX_WORDS, forbid_words, pack_words
from kernels.logit_edits import END_BIT, edit_logits
from kernels.logprobs import MAX_LOGPROBS, allocate_logprobs, find_logprobs
from kernels.penalties import penalise_triton
from kernels.race import allocate_race, run_race
from kernels.sampling_table import WORDS, pack_row, pack_rows
from kernels.survivors import allocate_survivors, find_survivors

MAX_EDITS = 2048
"""Tokens with a bias, and end tokens under min_tokens, that one row may name."""

_HOST = torch.device("cpu")


class GPUSampler(RowBook):
    """Settings of every row, the draw, and the log-probabilities of the last step."""

    def __init__(
        self, max_rows: int, vocab_size: int, eos_token_ids: tuple[int, ...], device: torch.device
    ) -> None:
        super().__init__(max_rows, vocab_size, eos_token_ids)
        self._device = device
        self._table = torch.zeros(max_rows, WORDS, dtype=torch.int64, device=device)
        self._allowed = torch.zeros(max_rows, -(-vocab_size // 32), dtype=torch.int32, device=device)
        self._edit_ids = torch.zeros(max_rows, MAX_EDITS, dtype=torch.int32, device=device)
        self._bad_words = torch.full(
            (max_rows, MAX_WORDS, MAX_WORD_TOKENS), -1, dtype=torch.int32, device=device
        )
        self._edit_biases = torch.zeros(max_rows, MAX_EDITS, dtype=torch.float32, device=device)
        self._kept = torch.zeros(max_rows, vocab_size, dtype=torch.float32, device=device)
        self._uses = torch.zeros(max_rows, vocab_size, dtype=torch.int32, device=device)
        self._survivors = allocate_survivors(max_rows, vocab_size, device)
        self._race = allocate_race(max_rows, vocab_size, device)
        self._logprobs = allocate_logprobs(max_rows, vocab_size, device)

    def set_rows(self, inits: Sequence[RowInit]) -> None:
        """Take the settings of rows. Unusable ones are remembered and reported when the row samples."""
        if not inits:
            return
        lines = pack_rows([self._take(init) for init in inits])
        index = torch.tensor([[init.row] for init in inits], dtype=torch.int64)
        staged = self._stage(torch.cat((index, lines), dim=1))
        self._table.index_copy_(0, staged[:, 0], staged[:, 1:])

    def send_masks(self, rows: Sequence[int], masks: Mapping[int, Words]) -> None:
        """Before `sample`: what may follow in the rows at these places. A row's mask on the device is its own, so
        that of an earlier step is read before it is written over."""
        if masks:
            index = self._stage(torch.tensor([rows[place] for place in masks]))
            words = torch.from_numpy(np.stack(list(masks.values())))
            self._allowed.index_copy_(0, index, self._stage(words))

    def logprob_counts(self, rows: Sequence[int]) -> dict[int, int]:
        """Place in `rows` → number of alternatives, for those that want log-probabilities."""
        counts = enumerate(self._settings(row).num_logprobs for row in rows)
        return {place: count for place, count in counts if count is not None}

    def sample(self, logits: Tensor, rows: Tensor, lens: Tensor, tokens: Tensor, out: Tensor) -> None:
        """out [S] int32 = the rows' next tokens, −1 where none can be chosen. Captured: waits for nothing.

        logits [S, V] fp32 are overwritten; rows [S] int32, −1 for padding; lens [S] int32 count each row's tokens in
        `tokens` [R, positions] int32; the chosen one belongs at position `lens`."""
        table, survivors = self._table, self._survivors
        edit_logits(logits, self._kept, rows, lens, table, self._allowed, self._edit_ids, self._edit_biases)
        forbid_words(logits, rows, lens, table, self._bad_words, tokens)
        penalise_triton(logits, self._uses, rows, lens, table, tokens)
        find_survivors(survivors, logits, rows, table)
        run_race(self._race, logits, rows, lens, table, survivors.cut, survivors.last, out)
        find_logprobs(self._logprobs, logits, self._kept, rows, out, table)

    def logprobs(self, count: int) -> Tensor:
        """[count, 42] int32 on the device: see `to_token_logprobs`. Of the last step, for the rows that asked."""
        return self._logprobs.found[:count]

    def _take(self, init: RowInit) -> tuple[list[float], list[int]]:
        params = init.sampling
        try:
            settings = self._check(params, init.num_prompt_tokens)
        except SettingsError as error:
            self._rows[init.row] = error
            return pack_row()
        self._rows[init.row] = settings
        self.follow_grammar(init)
        return pack_row(
            temperature=params.temperature,
            min_p=params.min_p,
            top_p=params.top_p,
            repetition=params.repetition_penalty,
            presence=params.presence_penalty,
            frequency=params.frequency_penalty,
            top_k=params.top_k,
            seed=settings.seed,
            prompt_len=init.num_prompt_tokens,
            num_logprobs=-1 if params.num_logprobs is None else params.num_logprobs,
            min_len=settings.min_len,
            num_edits=self._send_edits(init.row, settings),
            restricted=params.grammar is not None or self._send_allowed(init.row, settings),
            num_bad_words=self._send_bad_words(init.row, settings),
        )

    def _check(self, params: SamplingParams, num_prompt_tokens: int) -> RowSettings:
        settings = RowSettings.of(params, num_prompt_tokens, self._vocab_size, self._eos_token_ids, _HOST)
        for name in ("num_logprobs", "num_prompt_logprobs"):
            if (getattr(params, name) or 0) > MAX_LOGPROBS:
                raise SettingsError(f"{name} must be at most {MAX_LOGPROBS}, got {getattr(params, name)}")
        named = sum(0 if ids is None else len(ids) for ids in (settings.bias_ids, settings.end_tokens))
        if named > MAX_EDITS:
            raise SettingsError(
                f"logit_bias and stop_token_ids name {named} tokens; at most {MAX_EDITS} are possible"
            )
        words = params.bad_words
        if len(words) > MAX_WORDS or any(len(word) > MAX_WORD_TOKENS for word in words):
            raise SettingsError(f"bad_words: at most {MAX_WORDS} of {MAX_WORD_TOKENS} tokens are possible")
        return settings

    def _send_edits(self, row: int, settings: RowSettings) -> int:
        """The row's list of biases and end tokens, each token once. Returns its length."""
        biases: dict[int, float] = {}
        if settings.bias_ids is not None and settings.bias is not None:
            biases = dict(zip(settings.bias_ids.tolist(), settings.bias.tolist(), strict=True))
        ends = set() if settings.end_tokens is None else set(settings.end_tokens.tolist())
        ids = [*biases, *sorted(ends - set(biases))]
        if ids:
            marked = [token + END_BIT if token in ends else token for token in ids]
            values = [biases.get(token, 0.0) for token in ids]
            staged_ids = self._stage(torch.tensor(marked, dtype=torch.int32))
            self._edit_ids[row, : len(ids)].copy_(staged_ids)
            self._edit_biases[row, : len(ids)].copy_(self._stage(torch.tensor(values, dtype=torch.float32)))
        return len(ids)

    def _send_allowed(self, row: int, settings: RowSettings) -> bool:
        """The row's mask of allowed tokens. Returns whether it has one."""
        if settings.allowed is None:
            return False
        flags = torch.zeros(self._allowed.shape[1] * 32, dtype=torch.int64)
        flags[settings.allowed] = 1
        words = (flags.view(-1, 32) << torch.arange(32)).sum(1)
        signed = torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)
        self._allowed[row].copy_(self._stage(signed))
        return True

    def _send_bad_words(self, row: int, settings: RowSettings) -> int:
        if settings.bad_words:
            self._bad_words[row, : len(settings.bad_words)].copy_(self._stage(pack_words(settings.bad_words)))
        return len(settings.bad_words)

    def _stage(self, host: Tensor) -> Tensor:
        """On the device, through pinned memory that torch keeps until the copy is over."""
        if self._device.type == "cuda":
            host = host.pin_memory()
        return host.to(self._device, non_blocking=True)


def to_token_logprobs(
    found: Tensor, counts: Mapping[int, int], rows: Sequence[int]
) -> dict[int, TokenLogprobs]:
    """By row, what `GPUSampler.logprobs` found, on the host, each cut to what its row asked for."""
    ints = found[:, : 1 + MAX_LOGPROBS].tolist()
    reals = found[:, 1 + MAX_LOGPROBS :].view(torch.float32).tolist()
    return {
        rows[place]: TokenLogprobs(
            reals[place][0], ints[place][0], ints[place][1 : 1 + count], reals[place][1 : 1 + count]
        )
        for place, count in counts.items()
    }
