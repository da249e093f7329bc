"""Loading, ids, bytes, and the cache of tokenizers built from GGUF files."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import tokenizers
from tokenizers import models

from engine.text.tokenizer import Tokenizer, TokenizerError, load_tokenizer
from tests.engine.text.gguf_files import write_sentencepiece_gguf
from tests.tiny_tokenizer import TEXT


def test_begin_token_is_not_doubled(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("tide", add_special_tokens=True)
    begin = tokenizer.token(ids[0])
    assert ids[0] in tokenizer.special_ids
    assert tokenizer.encode(f"{begin}tide", add_special_tokens=True) == ids
    assert tokenizer.encode(f"{begin}tide", add_special_tokens=False) == ids
    assert tokenizer.encode("tide", add_special_tokens=False) == ids[1:]


def test_bytes_of_all_tokens_spell_the_text(tokenizer: Tokenizer) -> None:
    text = TEXT + "日本 👩‍👩‍👧"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert b"".join(tokenizer.token_bytes(index) for index in ids) == text.encode()


def test_ids_beyond_the_vocabulary_are_empty(tokenizer: Tokenizer) -> None:
    assert tokenizer.token_bytes(tokenizer.vocab_size + 5) == b""
    assert tokenizer.token(tokenizer.vocab_size + 5) == ""
    assert tokenizer.token_id("no such token") is None


def test_directory_and_file(tokenizer_dir: Path, tokenizer: Tokenizer) -> None:
    from_file = load_tokenizer(tokenizer_dir / "tokenizer.json", tokenizer_dir)
    assert from_file.encode(TEXT, add_special_tokens=True) == tokenizer.encode(TEXT, add_special_tokens=True)


def test_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="--tokenizer"):
        load_tokenizer(tmp_path, tmp_path)


def test_unknown_decoder_is_refused() -> None:
    with pytest.raises(TokenizerError, match="not supported"):
        Tokenizer(tokenizers.Tokenizer(models.WordLevel({"a": 0}, "a")))


def test_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "models" / "tiny.gguf"
    model.parent.mkdir()
    write_sentencepiece_gguf(model)
    first = load_tokenizer(model, tmp_path / "cache")
    beside = list(model.parent.glob("tiny.*.tokenizer.json"))
    assert len(beside) == 1
    monkeypatch.setattr("engine.text.tokenizer.build_tokenizer", lambda _: pytest.fail("built again"))
    again = load_tokenizer(model, tmp_path / "cache")
    assert again.encode(TEXT, add_special_tokens=True) == first.encode(TEXT, add_special_tokens=True)
    assert not (tmp_path / "cache").exists()


def test_cache_directory_when_the_model_lies_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "models" / "tiny.gguf"
    model.parent.mkdir()
    write_sentencepiece_gguf(model)
    write_text = Path.write_text

    def refuse(path: Path, text: str, encoding: str | None = None) -> int:
        if path.parent == model.parent:
            raise PermissionError(13, "read-only file system")
        return write_text(path, text, encoding=encoding)

    monkeypatch.setattr(Path, "write_text", refuse)
    load_tokenizer(model, tmp_path / "cache")
    assert [path.suffix for path in model.parent.iterdir()] == [".gguf"]
    assert len(list((tmp_path / "cache").glob("tiny.*.tokenizer.json"))) == 1


def test_another_file_gets_another_cache_entry(tmp_path: Path) -> None:
    model = tmp_path / "tiny.gguf"
    write_sentencepiece_gguf(model)
    load_tokenizer(model, tmp_path)
    write_sentencepiece_gguf(model, add_bos=False)
    changed = load_tokenizer(model, tmp_path)
    assert changed.encode("tide", add_special_tokens=True)[0] not in changed.special_ids
    assert len(list(tmp_path.glob("*.tokenizer.json"))) == 2


def test_other_threads_go_on_while_a_long_text_is_encoded(tokenizer: Tokenizer) -> None:
    """The event loop lives in one of them."""
    ids: list[int] = []
    thread = threading.Thread(
        target=lambda: ids.extend(tokenizer.encode("The lamps at dusk. " * 50_000, add_special_tokens=True))
    )
    thread.start()
    turns = 0
    while thread.is_alive():
        turns += 1
        time.sleep(0.001)
    assert turns > 5
    assert len(ids) > 50_000


def test_longest_token(tokenizer: Tokenizer) -> None:
    spelled = [tokenizer.token_bytes(index).decode(errors="ignore") for index in range(tokenizer.vocab_size)]
    assert tokenizer.max_chars_per_token >= max(map(len, spelled)) > 1
