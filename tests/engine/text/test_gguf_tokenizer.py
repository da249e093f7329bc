"""Tokenizers built from GGUF metadata cut text as the tokenizers that they were converted from."""

from __future__ import annotations

from pathlib import Path

import pytest
import tokenizers

from engine.gguf import GGUFError, GGUFFile
from engine.text.gguf_tokenizer import build_tokenizer, merges_from_scores
from tests.engine.text.gguf_files import write_byte_level_gguf, write_sentencepiece_gguf
from tests.tiny_tokenizer import TEXT, write_gemma_tokenizer, write_llama_tokenizer


def _original(tmp_path: Path, write: object) -> tokenizers.Tokenizer:
    write(tmp_path)
    return tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))


def test_sentencepiece_equals_its_original(tmp_path: Path) -> None:
    write_sentencepiece_gguf(tmp_path / "a.gguf")
    built = build_tokenizer(GGUFFile(tmp_path / "a.gguf").metadata)
    original = _original(tmp_path, write_gemma_tokenizer)
    lines = [line.strip() for line in TEXT.splitlines()]  # runs of spaces are user-defined tokens in the file
    for line in [*lines, "日本", " lead", "trail ", "<bos>x<end_of_turn>"]:
        assert built.encode(line).ids == original.encode(line).ids, line


def test_user_defined_runs_come_first(tmp_path: Path) -> None:
    write_sentencepiece_gguf(tmp_path / "a.gguf")
    built = build_tokenizer(GGUFFile(tmp_path / "a.gguf").metadata)
    assert built.encode("a   b\n\nc", add_special_tokens=False).tokens == ["a", "   ", "b", "\n\n", "c"]
    assert built.decode(built.encode("a   b\n\nc").ids) == "a   b\n\nc"


def test_space_prefix_only_when_the_file_says_so(tmp_path: Path) -> None:
    write_sentencepiece_gguf(tmp_path / "a.gguf", space_prefix=True)
    built = build_tokenizer(GGUFFile(tmp_path / "a.gguf").metadata)
    assert built.encode("sea", add_special_tokens=False).tokens[0].startswith("▁")


def test_byte_level_equals_its_original(tmp_path: Path) -> None:
    write_byte_level_gguf(tmp_path / "a.gguf", pre="gpt-2")
    built = build_tokenizer(GGUFFile(tmp_path / "a.gguf").metadata)
    original = _original(tmp_path, write_llama_tokenizer)
    for line in [*TEXT.splitlines(), "日本", "<|eot_id|>a"]:
        assert built.encode(line).ids == original.encode(line).ids, line
        assert built.decode(built.encode(line).ids) == original.decode(original.encode(line).ids)


@pytest.mark.parametrize(
    ("pre", "words"),
    [
        ("llama-bpe", ["Ġ", "123", "45", "Ġwe", "'LL"]),
        ("qwen2", ["Ġ", "1", "2", "3", "4", "5", "Ġwe", "'LL"]),
        ("tekken", ["Ġ", "1", "2", "3", "4", "5", "Ġwe", "'LL"]),
        ("gpt-2", ["Ġ12345", "Ġwe", "'", "LL"]),
    ],
)
def test_pre_tokenizers(tmp_path: Path, pre: str, words: list[str]) -> None:
    write_byte_level_gguf(tmp_path / "a.gguf", pre=pre)
    built = build_tokenizer(GGUFFile(tmp_path / "a.gguf").metadata)
    assert [word for word, _ in built.pre_tokenizer.pre_tokenize_str(" 12345 we'LL")] == words


def test_unknown_kinds_are_named(tmp_path: Path) -> None:
    write_byte_level_gguf(tmp_path / "a.gguf", pre="martian")
    with pytest.raises(GGUFError, match="martian"):
        build_tokenizer(GGUFFile(tmp_path / "a.gguf").metadata)


def test_merges_go_from_the_best_score_down() -> None:
    merges = merges_from_scores(
        ["a", "b", "ab", "abb", "<x>"], [1, 1, 1, 1, 3], [-3.0, -4.0, -2.0, -1.0, 0.0]
    )
    assert merges == [("ab", "b"), ("a", "b")]
