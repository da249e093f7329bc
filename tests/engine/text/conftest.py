"""Small real tokenizers of both kinds, trained once per run."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.text.tokenizer import Tokenizer, load_tokenizer
from tests.tiny_tokenizer import write_gemma_tokenizer, write_llama_tokenizer


@pytest.fixture(scope="session", params=["byte_level", "byte_fallback"])
def tokenizer_dir(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    write = write_llama_tokenizer if request.param == "byte_level" else write_gemma_tokenizer
    write(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer(tokenizer_dir: Path) -> Tokenizer:
    return load_tokenizer(tokenizer_dir, tokenizer_dir)
