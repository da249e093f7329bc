"""What one row wants of the sampler beyond numbers: token masks and biases, checked against the vocabulary.

Place in the path: `sampler` and `gpu_sampler` make one per `RowInit` and keep it in their `RowBook`. Knows no batch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.core.contract import RowInit
from engine.grammar.bound import BoundGrammar
from engine.grammar.rows import GrammarError, RowGrammar, Words
from engine.messages import SamplingParams

_log = logging.getLogger(__name__)

_FAILED = "the grammar of this answer could not be followed"


class SettingsError(Exception):
    """One row's parameters cannot be used. Fails that row and no other."""


@dataclass(frozen=True, slots=True)
class RowSettings:
    """A row's flags on the host and its token lists on the device."""

    greedy: bool
    penalised: bool
    has_edits: bool
    num_logprobs: int | None
    num_prompt_logprobs: int | None = None
    num_prompt_tokens: int = 0
    seed: int = 0
    """The 64-bit seed as a two's complement int64."""
    allowed: Tensor | None = None
    bias_ids: Tensor | None = None
    bias: Tensor | None = None
    end_tokens: Tensor | None = None
    """Banned while the row is shorter than `min_len`."""
    min_len: int = 0
    bad_words: tuple[tuple[int, ...], ...] = ()

    @property
    def is_plain(self) -> bool:
        """The likeliest token of the logits as they come, nothing else."""
        return self.greedy and not self.penalised and not self.has_edits and self.num_logprobs is None

    @classmethod
    def plain(cls) -> RowSettings:
        """Greedy, nothing else."""
        return cls(greedy=True, penalised=False, has_edits=False, num_logprobs=None)

    @classmethod
    def of(
        cls,
        params: SamplingParams,
        num_prompt_tokens: int,
        vocab_size: int,
        eos_token_ids: tuple[int, ...],
        device: torch.device,
    ) -> RowSettings:
        """Raises `SettingsError` for a token outside the vocabulary or too many logprobs."""
        for name in ("num_logprobs", "num_prompt_logprobs"):
            count = getattr(params, name)
            if count is not None and not 0 <= count <= vocab_size:
                raise SettingsError(f"{name} must be between 0 and {vocab_size}, got {count}")
        bias_ids = _token_tensor("logit_bias", list(params.logit_bias), vocab_size, device)
        allowed = _token_tensor("allowed_token_ids", list(params.allowed_token_ids), vocab_size, device)
        end_tokens = None
        if params.min_tokens:
            ends = sorted(end_ids(params, eos_token_ids))
            end_tokens = _token_tensor("stop_token_ids", ends, vocab_size, device)
        follows_grammar = params.grammar is not None
        if follows_grammar:
            allowed = end_tokens = None  # parts of the grammar's mask
        return cls(
            greedy=params.temperature == 0,
            penalised=(params.repetition_penalty, params.presence_penalty, params.frequency_penalty)
            != (1, 0, 0),
            has_edits=follows_grammar
            or bool(params.bad_words)
            or not (allowed is None and bias_ids is None and end_tokens is None),
            num_logprobs=params.num_logprobs,
            num_prompt_logprobs=params.num_prompt_logprobs,
            num_prompt_tokens=num_prompt_tokens,
            seed=(params.seed + 2**63) % 2**64 - 2**63,
            allowed=allowed,
            bias_ids=bias_ids,
            bias=None if bias_ids is None else torch.tensor(list(params.logit_bias.values()), device=device),
            end_tokens=end_tokens,
            min_len=num_prompt_tokens + params.min_tokens,
            bad_words=_checked_words(params.bad_words, vocab_size),
        )

    def edit(self, logits: Tensor, length: int, tokens: Tensor) -> None:
        """Masks and biases of a row of `length` tokens, in place on its logits [V]; `tokens` are the row's."""
        if self.allowed is not None:
            kept = logits[self.allowed]
            logits.fill_(float("-inf"))
            logits[self.allowed] = kept
        if self.bias_ids is not None and self.bias is not None:
            logits[self.bias_ids] += self.bias
        if self.end_tokens is not None and length < self.min_len:
            logits[self.end_tokens] = float("-inf")
        forbidden = self._next_of_bad_words(length, tokens) if self.bad_words else []
        if forbidden:
            logits[forbidden] = float("-inf")

    def _next_of_bad_words(self, length: int, tokens: Tensor) -> list[int]:
        """The tokens that would complete a bad word which the answer ends with already."""
        longest = max(map(len, self.bad_words)) - 1
        tail = tuple(tokens[max(self.num_prompt_tokens, length - longest) : length].tolist())
        return [word[-1] for word in self.bad_words if len(word) == 1 or tail[1 - len(word) :] == word[:-1]]


class RowBook:
    """What is known of every row's settings, and its place in its grammar; the two samplers keep theirs in it."""

    def __init__(self, max_rows: int, vocab_size: int, eos_token_ids: tuple[int, ...]) -> None:
        self._vocab_size, self._eos_token_ids = vocab_size, eos_token_ids
        self._rows: list[RowSettings | SettingsError | GrammarError | None] = [None] * max_rows
        self._grammars: dict[int, RowGrammar] = {}

    def clear_row(self, row: int) -> None:
        self._rows[row] = None
        self._grammars.pop(row, None)

    def follow_grammar(self, init: RowInit) -> None:
        """After the row's settings: begin its grammar, if it has one, behind what the answer says already."""
        self._grammars.pop(init.row, None)
        params = init.sampling
        if params.grammar is None or not isinstance(self._rows[init.row], RowSettings):
            return
        if not isinstance(params.grammar, BoundGrammar):
            self._rows[init.row] = SettingsError("the grammar of this request was never compiled")
            return
        try:
            self._grammars[init.row] = RowGrammar(
                params.grammar.compiled,
                self._vocab_size,
                init.token_ids[init.num_prompt_tokens :],
                allowed=params.allowed_token_ids,
                end_ids=end_ids(params, self._eos_token_ids),
                min_len=init.num_prompt_tokens + params.min_tokens if params.min_tokens else 0,
            )
        except RuntimeError:
            _log.exception("a grammar could not be begun")
            self._rows[init.row] = SettingsError(_FAILED)

    def grammars_of(self, rows: Sequence[int]) -> dict[int, RowGrammar]:
        """By place in `rows`. Tell each of the token that its row gets, before the row's next mask."""
        if not self._grammars:
            return {}
        return {place: self._grammars[row] for place, row in enumerate(rows) if row in self._grammars}

    def masks(self, rows: Sequence[int], lens: Sequence[int]) -> dict[int, Words]:
        """By place in `rows` of `lens` tokens, what may follow in those that follow a grammar. A row in which nothing
        may has an error from now on."""
        found = {}
        for place, grammar in self.grammars_of(rows).items():
            try:
                found[place] = grammar.mask(lens[place])
            except GrammarError as error:
                self._rows[rows[place]] = error
            except RuntimeError:
                _log.exception("a grammar could not be followed")
                self._rows[rows[place]] = SettingsError(_FAILED)
        return found

    def errors(self, rows: Sequence[int]) -> dict[int, str]:
        """Those of the rows that can never sample, and why."""
        kinds = SettingsError, GrammarError
        return {row: str(self._rows[row]) for row in rows if isinstance(self._rows[row], kinds)}

    def refused(self, rows: Sequence[int]) -> frozenset[int]:
        """Those of the rows that fail, if they fail, by what their caller asked for: their grammar leaves nothing, or
        forbidden words leave nothing of it."""
        if not self._grammars:
            return frozenset()
        return frozenset(row for row in rows if self._contradicts_itself(row))

    def _contradicts_itself(self, row: int) -> bool:
        entry = self._rows[row]
        if isinstance(entry, RowSettings):
            return row in self._grammars and bool(entry.bad_words)
        return isinstance(entry, GrammarError)

    def prompt_logprobs(self, row: int) -> tuple[int, int] | None:
        """(alternatives wanted beside each prompt token, length of the prompt), if the row wants any."""
        settings = self._settings(row)
        if settings.num_prompt_logprobs is None:
            return None
        return settings.num_prompt_logprobs, settings.num_prompt_tokens

    def all_greedy(self, rows: Sequence[int]) -> bool:
        """Whether these rows want the likeliest token of the plain logits, and nothing else."""
        return all(entry.is_plain for entry in map(self._settings, rows))

    def _settings(self, row: int) -> RowSettings:
        """A failed row is sampled as a plain greedy one; its token is dropped."""
        settings = self._rows[row]
        return settings if isinstance(settings, RowSettings) else RowSettings.plain()


def _checked_words(words: tuple[tuple[int, ...], ...], vocab_size: int) -> tuple[tuple[int, ...], ...]:
    for word in words:
        if not word or not all(0 <= token_id < vocab_size for token_id in word):
            raise SettingsError(f"bad_words names {word}, but the vocabulary ends at {vocab_size - 1}")
    return words


def end_ids(params: SamplingParams, eos_token_ids: tuple[int, ...]) -> set[int]:
    """The tokens that end the row's answer."""
    return set(params.stop_token_ids) | (set() if params.ignore_eos else set(eos_token_ids))


def _token_tensor(field: str, token_ids: list[int], vocab_size: int, device: torch.device) -> Tensor | None:
    for token_id in token_ids:
        if not 0 <= token_id < vocab_size:
            raise SettingsError(
                f"{field} names token {token_id}, but the vocabulary ends at {vocab_size - 1}"
            )
    return torch.tensor(token_ids, dtype=torch.int64, device=device) if token_ids else None
