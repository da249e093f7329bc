"""Any chunking gives the same text, characters are never split, and the library's own decoder agrees."""

from __future__ import annotations

from pathlib import Path

import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.detokenizer import Detokenizer, detokenize
from engine.text.tokenizer import Tokenizer
from tests.tiny_tokenizer import TEXT

HARD = "naïve 日本語 👩‍👩‍👧 \x07\t  two   three\n\n\nend 𐍈"


def _pieces(tokenizer: Tokenizer, ids: list[int], skip: bool = True) -> list[str]:
    detokenizer = Detokenizer(tokenizer, skip_special_tokens=skip)
    return [*(detokenizer.push(index) for index in ids), detokenizer.finish()]


def test_text_comes_back(tokenizer: Tokenizer) -> None:
    for text in (TEXT, HARD):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert "".join(_pieces(tokenizer, ids)) == text


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=60))
def test_characters_are_never_split(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False)
    pieces = _pieces(tokenizer, ids, skip=False)
    whole = "".join(pieces)
    assert whole.count("�") == text.count("�")
    assert whole in (text, text.replace("▁", " "))  # SentencePiece writes a space like that mark


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_ids_any_chunking(tokenizer: Tokenizer, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size + 3), max_size=30))
    skip = data.draw(st.booleans())
    assert "".join(_pieces(tokenizer, ids, skip)) == detokenize(tokenizer, ids, skip_special_tokens=skip)


def test_agrees_with_the_library(tokenizer: Tokenizer, tokenizer_dir: Path) -> None:
    library = tokenizers.Tokenizer.from_file(str(tokenizer_dir / "tokenizer.json"))
    for text in [*TEXT.splitlines(), HARD]:
        ids = tokenizer.encode(text, add_special_tokens=True)
        for skip in (True, False):
            expected = library.decode(ids, skip_special_tokens=skip)
            assert detokenize(tokenizer, ids, skip_special_tokens=skip) == expected


def test_special_tokens(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("tide", add_special_tokens=True)
    assert detokenize(tokenizer, ids, skip_special_tokens=True) == "tide"
    assert detokenize(tokenizer, ids, skip_special_tokens=False).startswith("<")


def test_bytes_that_are_no_text(tokenizer: Tokenizer) -> None:
    lead = [
        index for index in range(tokenizer.vocab_size) if tokenizer.token_bytes(index) in (b"\xe6", b"\x97")
    ]
    pieces = _pieces(tokenizer, lead * 3)
    assert "".join(pieces)
    assert set("".join(pieces)) == {"�"}
    assert pieces[-1] in ("", "�")


def test_special_tokens_that_are_shown(tokenizer: Tokenizer) -> None:
    first, second, *_ = sorted(tokenizer.special_ids)
    detokenizer = Detokenizer(tokenizer, shown=[second])
    assert detokenizer.push(first) == ""
    assert detokenizer.push(second) == tokenizer.token(second)
