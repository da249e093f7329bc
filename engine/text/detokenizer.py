"""Tokens → text of one answer, a token at a time.

Sits between the core's token ids and the stop-string search. Works on the bytes of each token, so a
character whose bytes are spread over several tokens appears when it is complete, at constant cost per
token and whatever the chunking. Knows nothing of stops, requests or JSON.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection, Sequence
from typing import Protocol


class TokenBytes(Protocol):
    """The part of a tokenizer that the detokeniser needs."""

    @property
    def special_ids(self) -> frozenset[int]: ...

    def token_bytes(self, token_id: int) -> bytes: ...


class Detokenizer:
    """One sequence's text. Bytes that can never become UTF-8 come out as U+FFFD."""

    __slots__ = ("_bytes_of", "_decode", "_skipped")

    def __init__(
        self, vocabulary: TokenBytes, *, skip_special_tokens: bool = True, shown: Collection[int] = ()
    ) -> None:
        """Special tokens that are `shown` are not skipped in any case."""
        self._bytes_of = vocabulary.token_bytes
        special = vocabulary.special_ids  # shared by all sequences, but for those that show some
        self._skipped = (
            (special.difference(shown) if shown else special) if skip_special_tokens else frozenset()
        )
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def push(self, token_id: int) -> str:
        """The characters that this token completes; empty while inside a character."""
        if token_id in self._skipped:
            return ""
        return self._decode(self._bytes_of(token_id))

    def finish(self) -> str:
        """What is left of an unfinished character."""
        return self._decode(b"", True)


def detokenize(vocabulary: TokenBytes, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
    """The whole text at once; equal to the concatenation of every `push` and the `finish`."""
    detokenizer = Detokenizer(vocabulary, skip_special_tokens=skip_special_tokens)
    return "".join([detokenizer.push(token_id) for token_id in token_ids]) + detokenizer.finish()
