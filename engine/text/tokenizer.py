"""The model's tokenizer, over the `tokenizers` library.

Text → ids on the way in, id → bytes on the way out (the detokeniser and logprobs work on bytes). Loaded
from `tokenizer.json`, or built from GGUF metadata and then kept beside the model under a name that holds
a hash, so a second start does not build again. Knows no chat templates and no requests.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tokenizers

from engine.gguf import GGUFFile
from engine.text.gguf_tokenizer import build_tokenizer

_LOG = logging.getLogger(__name__)
_BUILDER_VERSION = 1
_HASHED_BYTES = 16 << 20
_MARK = "▁"


class TokenizerError(ValueError):
    """The tokenizer's files are missing or of a kind that we do not serve."""


class Tokenizer:
    """Encodes and decodes. Thread-safe: encoding may run beside the event loop, and lets other threads go on."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        inner.no_truncation()
        inner.no_padding()
        self._inner = inner
        added = inner.get_added_tokens_decoder()
        self._added = {index: token.content for index, token in added.items()}
        self.special_ids = frozenset(index for index, token in added.items() if token.special)
        self._byte_level = _is_byte_level(inner)
        self._byte_of_char = _byte_of_char() if self._byte_level else {}
        self._bytes: dict[int, bytes] = {}
        self.vocab_size = inner.get_vocab_size(with_added_tokens=True)
        self.max_chars_per_token = max(map(len, inner.get_vocab(with_added_tokens=True)))
        """No token stands for more characters of a text."""
        self._bos_id = _leading_special(inner, self.special_ids)

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Ids of a text. A beginning-of-sequence token that the text already has is not doubled."""
        # The plain `encode` of `tokenizers` keeps the interpreter to itself for as long as it takes.
        ids = self._inner.encode_batch_fast([text], add_special_tokens=add_special_tokens)[0].ids
        if add_special_tokens and self._bos_id is not None and ids[:2] == [self._bos_id, self._bos_id]:
            return ids[1:]
        return ids

    def token_id(self, token: str) -> int | None:
        return self._inner.token_to_id(token)

    def token(self, token_id: int) -> str:
        """The vocabulary's own spelling; empty for ids beyond the vocabulary."""
        return self._inner.id_to_token(token_id) or ""

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that a token stands for; empty for ids beyond the vocabulary (padded embeddings)."""
        known = self._bytes.get(token_id)
        if known is None:
            known = self._bytes[token_id] = self._spell(token_id)
        return known

    def _spell(self, token_id: int) -> bytes:
        added = self._added.get(token_id)
        if added is not None:
            return added.encode()
        token = self._inner.id_to_token(token_id) or ""
        if self._byte_level:
            codes = [self._byte_of_char.get(char) for char in token]
            return token.encode() if None in codes else bytes([code for code in codes if code is not None])
        if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            return bytes.fromhex(token[3:5])
        return token.replace(_MARK, " ").encode()


def load_tokenizer(model: Path, cache_dir: Path) -> Tokenizer:
    """`model` is a directory with tokenizer.json, that file itself, or a GGUF file."""
    if model.suffix == ".gguf":
        return Tokenizer(_load_gguf(model, cache_dir))
    path = model / "tokenizer.json" if model.is_dir() else model
    if not path.is_file():
        raise TokenizerError(f"{path} does not exist: give the tokenizer's place with --tokenizer")
    return Tokenizer(tokenizers.Tokenizer.from_file(str(path)))


def _load_gguf(model: Path, cache_dir: Path) -> tokenizers.Tokenizer:
    name = f"{model.stem}.{_fingerprint(model)}.tokenizer.json"
    for folder in (model.parent, cache_dir):
        if (folder / name).is_file():
            return tokenizers.Tokenizer.from_file(str(folder / name))
    built = build_tokenizer(GGUFFile(model).metadata)
    for folder in (model.parent, cache_dir):
        if _save(built, folder / name):
            break
    else:
        _LOG.warning("the tokenizer of %s could not be cached; every start will build it again", model)
    return built


def _fingerprint(model: Path) -> str:
    """Names the vocabulary: it lies at the beginning of the file."""
    with model.open("rb") as file:
        digest = hashlib.sha256(file.read(_HASHED_BYTES))
    digest.update(f"{model.stat().st_size} {_BUILDER_VERSION} {tokenizers.__version__}".encode())
    return digest.hexdigest()[:16]


def _save(built: tokenizers.Tokenizer, path: Path) -> bool:
    """Write whole or not at all: several processes may start at once."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(built.to_str(pretty=False), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        _LOG.info("cannot write %s: %s", path, error)
        partial.unlink(missing_ok=True)
        return False
    return True


def _is_byte_level(inner: tokenizers.Tokenizer) -> bool:
    kinds = set(_decoder_kinds(json.loads(inner.decoder.__getstate__()) if inner.decoder else {}))
    if "ByteLevel" in kinds:
        return True
    if kinds and kinds <= {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"}:
        return False
    raise TokenizerError(f"tokenizers that decode with {sorted(kinds) or 'nothing'} are not supported")


def _decoder_kinds(decoder: dict[str, Any]) -> Iterator[str]:
    if decoder.get("type") == "Sequence":
        for step in decoder["decoders"]:
            yield from _decoder_kinds(step)
    elif decoder:
        yield decoder["type"]


def _leading_special(inner: tokenizers.Tokenizer, special_ids: frozenset[int]) -> int | None:
    """The token that the post-processor puts before a text, if it does."""
    ids = inner.encode("a").ids
    return ids[0] if ids and ids[0] in special_ids else None


def _byte_of_char() -> dict[str, int]:
    """Byte-level vocabularies spell each byte as one printable character: printable Latin-1 as itself,
    the other bytes, in order, from U+0100 on."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [value for value in range(256) if value not in set(own)]
    table = {chr(value): value for value in own}
    table.update({chr(0x100 + index): value for index, value in enumerate(others)})
    return table
