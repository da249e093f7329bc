"""Copies of a checkpoint are equal, and anything that changes what ids mean is not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.text.identity import model_hash


def write(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text('{"hidden_size": 8}')
    (folder / "tokenizer.json").write_text('{"vocab": ["a", "b"]}')
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 8192)
    (folder / "README.md").write_text("about")
    return folder


def change_weights(folder: Path) -> None:
    """In a piece that is read, behind the beginning."""
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[len(weights) // 64 * 50 + 7] ^= 1
    (folder / "model.safetensors").write_bytes(weights)


def test_a_copy_is_the_same(tmp_path: Path) -> None:
    one = write(tmp_path / "one")
    other = Path(shutil.copytree(one, tmp_path / "other"))
    (other / "README.md").write_text("something else")
    (other / "chat_template.jinja").write_text("{{ messages }}")
    assert model_hash(one) == model_hash(other)
    assert len(model_hash(one)) == 32


@pytest.mark.parametrize(
    "change",
    [
        change_weights,
        lambda folder: (folder / "config.json").write_text('{"hidden_size": 9}'),
        lambda folder: (folder / "tokenizer.json").write_text('{"vocab": ["b", "a"]}'),
        lambda folder: (folder / "model-2.safetensors").write_bytes(b"more"),
    ],
)
def test_what_counts(tmp_path: Path, change: Callable[[Path], None]) -> None:
    folder = write(tmp_path / "model")
    before = model_hash(folder)
    change(folder)
    assert model_hash(folder) != before


def test_another_tokenizer_and_a_single_file(tmp_path: Path) -> None:
    folder = write(tmp_path / "model")
    other = write(tmp_path / "other")
    (other / "tokenizer.json").write_text("{}")
    assert model_hash(folder, other / "tokenizer.json") != model_hash(folder)
    gguf = tmp_path / "model.gguf"
    gguf.write_bytes(b"GGUF" * 100)
    first = model_hash(gguf)
    gguf.write_bytes(b"GGUF" * 99 + b"GGUG")
    assert model_hash(gguf) != first
