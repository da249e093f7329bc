"""The name of a checkpoint's content: token ids of one replica mean the same on another only where it is equal.

Read once at the start of an API process. Everything small is hashed whole (configuration, tokenizer, templates do not
count); of weights, which are too large to read at every start, the sizes, the beginnings and pieces spread evenly.
How a replica computes (dtype, quantisation, device) is left out: it does not change what the ids mean. Knows no
requests.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

_WHOLE_BYTES = 64 << 20
"""Files up to this size are hashed whole."""
_BEGIN_BYTES = 1 << 20
_PIECE_BYTES = 4096
_PIECES = 64
_WEIGHTS = (".safetensors", ".gguf")
_TEXT = ("config.json", "tokenizer.json")


def model_hash(model: Path, tokenizer: Path | None = None) -> str:
    """32 hexadecimal digits for a checkpoint directory or file, and the tokenizer that is used with it."""
    digest = hashlib.sha256()
    for path in [*_files(model), *(() if tokenizer is None else _files(tokenizer))]:
        digest.update(f"{path.suffix} {path.stat().st_size}\n".encode())
        _add_content(digest, path)
    return digest.hexdigest()[:32]


def _files(place: Path) -> list[Path]:
    """What decides the meaning of ids; names other than these do not count, so that copies are equal."""
    if place.is_file():
        return [place]
    return sorted(
        path for path in place.iterdir() if path.is_file() and (path.suffix in _WEIGHTS or path.name in _TEXT)
    )


def _add_content(digest: hashlib._Hash, path: Path) -> None:
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= _WHOLE_BYTES and path.suffix not in _WEIGHTS:
            digest.update(file.read())
            return
        digest.update(file.read(_BEGIN_BYTES))
        for number in range(_PIECES):
            file.seek(size * number // _PIECES)
            digest.update(file.read(_PIECE_BYTES))
