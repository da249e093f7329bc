"""A row's place in its grammar: which tokens may follow what it has said so far.

Place in the path: the samplers keep one per row that follows a grammar, ask it for a mask before each choice and tell
it what was chosen. It always knows every token of its row when it is asked, so nothing is ever taken back: the choice
of a step waits until the host has the row's last token. Masks are bits, 32 tokens a word, on the host. Knows no
logits.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import xgrammar

Words = NDArray[np.int32]
"""[⌈V / 32⌉]: bit i % 32 of word i / 32 is token i."""

TOKEN_S = 0.005
BUDGET_S = 0.25
"""Processor time: a token may take the first, and all that tokens take beyond it the second in all. The others' steps
wait for a grammar's ambiguity no longer than that."""


class GrammarError(Exception):
    """No token can follow, or it cannot be found out. Fails this row and no other; the caller's fault."""


def bits(vocab_size: int, token_ids: Iterable[int]) -> Words:
    """The mask of these tokens."""
    flags = np.zeros(-(-vocab_size // 32) * 32, dtype=np.uint8)
    flags[list(token_ids)] = 1
    return np.packbits(flags, bitorder="little").view(np.int32)


def unpack(words: Words, vocab_size: int) -> NDArray[np.bool_]:
    """[V] whether each token is in the mask."""
    return np.unpackbits(words.view(np.uint8), count=vocab_size, bitorder="little").view(np.bool_)


class RowGrammar:
    """Made when a row is taken, with the tokens that the answer has already."""

    def __init__(
        self,
        compiled: Any,
        vocab_size: int,
        output_ids: Sequence[int],
        *,
        allowed: Sequence[int] = (),
        end_ids: Iterable[int] = (),
        min_len: int = 0,
    ) -> None:
        """`allowed`: the caller's own list, none if empty. `end_ids` may not end a row shorter than `min_len` while
        anything else may follow."""
        import xgrammar

        self._matcher: xgrammar.GrammarMatcher = xgrammar.GrammarMatcher(compiled)
        self._words: Words = np.zeros((1, -(-vocab_size // 32)), dtype=np.int32)
        self._allowed = bits(vocab_size, allowed) if allowed else None
        self._others = ~bits(vocab_size, end_ids) if min_len else None
        self._tail = (1 << vocab_size % 32) - 1
        """The tokens of the last word; 0 if it is full."""
        self._min_len = min_len
        self._broken_by: int | None = None
        self._error: RuntimeError | None = None
        self._excess_s = 0.0
        for token_id in output_ids:
            self.accept(token_id)

    def accept(self, token_id: int) -> None:
        """The row's next token. What comes after the end is of no consequence."""
        if self._matcher.is_terminated() or self._broken_by is not None:
            return
        began = time.thread_time()
        try:
            is_inside = self._matcher.accept_token(token_id)
        except RuntimeError as error:
            is_inside, self._error = False, error
        if not is_inside:
            self._broken_by = token_id
        self._charge(began)

    def mask(self, length: int) -> Words:
        """What may follow in a row of `length` tokens; the words are valid until the next call.

        An end token may follow once the answer is complete. Raises `GrammarError` when nothing may, and RuntimeError
        when xgrammar itself fails."""
        words: Words = self._words[0]
        if self._error is not None:
            raise self._error
        if self._broken_by is not None:
            raise GrammarError(f"token {self._broken_by} of this answer is outside its grammar")
        if self._matcher.is_terminated():
            words.fill(-1)
            return words
        began = time.thread_time()
        self._matcher.fill_next_token_bitmask(self._words)
        self._charge(began)
        if self._excess_s > BUDGET_S:
            raise GrammarError("following this grammar takes too long: it can be read in too many ways")
        if self._tail:
            words[-1] &= self._tail
        if self._allowed is not None:
            words &= self._allowed
        if self._others is not None and length < self._min_len:
            longer = words & self._others
            if longer.any():
                words[:] = longer
        if not words.any():
            raise GrammarError(
                "no token can follow: what the grammar asks for is not allowed, or cannot be spelled"
            )
        return words

    def _charge(self, began: float) -> None:
        self._excess_s += max(0.0, time.thread_time() - began - TOKEN_S)
