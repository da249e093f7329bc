"""Writes small GGUF files that hold a vocabulary and nothing else."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import gguf

from tests.tiny_tokenizer import write_gemma_tokenizer, write_llama_tokenizer

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6


def write_sentencepiece_gguf(
    path: Path, *, add_bos: bool = True, space_prefix: bool = False, template: str | None = None
) -> None:
    """The tiny gemma vocabulary as converters store it: scores instead of merges."""
    state = _trained(write_gemma_tokenizer)
    tokens = sorted(state["model"]["vocab"], key=state["model"]["vocab"].__getitem__)
    specials = {token["content"] for token in state["added_tokens"]}
    types = [_kind(token, specials) for token in tokens]
    scores = [-1000.0 if kind != NORMAL else -float(index) for index, kind in enumerate(types)]
    tokens += ["\n\n", "   "]
    types += [USER_DEFINED, USER_DEFINED]
    scores += [-1000.0, -1000.0]
    writer = _writer(path, "gemma3", "llama", tokens, types)
    writer.add_token_scores(scores)
    writer.add_add_space_prefix(space_prefix)
    writer.add_add_bos_token(add_bos)
    writer.add_eos_token_id(1)
    writer.add_bos_token_id(2)
    writer.add_unk_token_id(3)
    _close(writer, template)


def write_byte_level_gguf(path: Path, *, pre: str = "llama-bpe", template: str | None = None) -> None:
    """The tiny llama vocabulary with its merges."""
    state = _trained(write_llama_tokenizer)
    tokens = sorted(state["model"]["vocab"], key=state["model"]["vocab"].__getitem__)
    specials = {token["content"] for token in state["added_tokens"]}
    types = [CONTROL if token in specials else NORMAL for token in tokens]
    writer = _writer(path, "llama", "gpt2", tokens, types)
    writer.add_tokenizer_pre(pre)
    writer.add_token_merges([" ".join(pair) for pair in state["model"]["merges"]])
    writer.add_add_bos_token(True)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    _close(writer, template)


def _trained(write: object) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        return json.loads((Path(folder) / "tokenizer.json").read_text(encoding="utf-8"))


def _kind(token: str, specials: set[str]) -> int:
    if token == "<unk>":
        return UNKNOWN
    if token in specials:
        return CONTROL
    return BYTE if token.startswith("<0x") else NORMAL


def _writer(path: Path, arch: str, kind: str, tokens: list[str], types: list[int]) -> gguf.GGUFWriter:
    writer = gguf.GGUFWriter(str(path), arch)
    writer.add_tokenizer_model(kind)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    return writer


def _close(writer: gguf.GGUFWriter, template: str | None) -> None:
    if template is not None:
        writer.add_chat_template(template)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
