"""Grammars compiled in the test's own process, for a tiny tokenizer."""

from __future__ import annotations

import functools
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from engine.grammar.bound import BoundGrammar
from engine.grammar.compile_process import compile_grammar, vocabulary
from engine.grammar.rows import RowGrammar, unpack
from engine.text.detokenizer import detokenize
from engine.text.schema import regex_grammar, schema_grammar
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
    """Also of kinds "json_schema" and "regex", which are written as EBNF."""
    written = text if isinstance(text, str) else json.dumps(text)
    if kind in ("json_schema", "regex"):
        kind, written = (
            "ebnf",
            schema_grammar(json.loads(written)) if kind == "json_schema" else regex_grammar(written),
        )
    compiled = compile_grammar(kind, written, tokenizer_info(vocab_size), 1)
    return BoundGrammar(kind, written, "structured_outputs", compiled)  # type: ignore[arg-type]  # any kind


def accepts(grammar: BoundGrammar, answer: str) -> bool:
    """Whether the whole text belongs to it."""
    import xgrammar

    matcher = xgrammar.GrammarMatcher(grammar.compiled)
    return bool(matcher.accept_string(answer) and matcher.is_completed())


def walk(grammar: BoundGrammar, draw: random.Random, patience: int = 60) -> str:
    """An answer drawn token by token; after `patience` tokens what closes something goes first."""
    row, said = RowGrammar(grammar.compiled, VOCAB, []), []
    while not said or said[-1] not in EOS:
        possible = np.flatnonzero(unpack(row.mask(len(said)), VOCAB)).tolist()
        closing = [
            token for token in possible if token in EOS or tokenizer().token_bytes(token)[:1] in b'"]}'
        ]
        ends = len(said) > patience and closing and draw.random() < 0.7
        said.append(draw.choice(closing if ends else possible))
        row.accept(said[-1])
        assert len(said) < 5000, text_of(said)
    return text_of(said)


def ids(text: str) -> list[int]:
    return tokenizer().encode(text, add_special_tokens=False)


def text_of(token_ids: list[int]) -> str:
    """Without the end token."""
    return detokenize(tokenizer(), token_ids, skip_special_tokens=True)
