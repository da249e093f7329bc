"""Grammars compiled in the test's own process, for a tiny tokenizer."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

from engine.grammar.bound import BoundGrammar
from engine.grammar.compile_process import compile_grammar, vocabulary
from engine.text.detokenizer import detokenize
from engine.text.tokenizer import Tokenizer, load_tokenizer
from tests.tiny_tokenizer import write_llama_tokenizer

VOCAB = 515
"""Three tokens of the model stand for nothing."""
EOS = (1, 4)


@functools.cache
def tokenizer() -> Tokenizer:
    with tempfile.TemporaryDirectory() as folder:
        write_llama_tokenizer(Path(folder))
        return load_tokenizer(Path(folder), Path(folder))


@functools.cache
def tokenizer_info(vocab_size: int = VOCAB) -> Any:
    import xgrammar

    return xgrammar.TokenizerInfo(
        vocabulary(tokenizer(), vocab_size),
        xgrammar.VocabType.RAW,
        vocab_size=vocab_size,
        stop_token_ids=list(EOS),
    )


def bound(kind: str, text: str | dict[str, Any] | list[str], vocab_size: int = VOCAB) -> BoundGrammar:
    written = text if isinstance(text, str) else json.dumps(text)
    compiled = compile_grammar(kind, written, tokenizer_info(vocab_size), 1)
    return BoundGrammar(kind, written, "structured_outputs", compiled)  # type: ignore[arg-type]  # any kind


def ids(text: str) -> list[int]:
    return tokenizer().encode(text, add_special_tokens=False)


def text_of(token_ids: list[int]) -> str:
    """Without the end token."""
    return detokenize(tokenizer(), token_ids, skip_special_tokens=True)
