"""The files a plan is made from: a checkpoint directory, a config.json, a GGUF file. All the reading there is.

Hands shapes and bytes to the arithmetic. Tensors are never loaded: of safetensors only the headers are read.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workbench.capacity import config_source
from workbench.capacity.errors import PlanError
from workbench.capacity.gguf_source import read_gguf
from workbench.capacity.shape import Shape
from workbench.capacity.weights import FORMATS, Weights, weigh

_GGUF = b"GGUF"
_HEADER_BYTES_MAX = 100 << 20


@dataclass(frozen=True, slots=True)
class Model:
    """What the files say."""

    name: str
    shape: Shape
    weights: Weights
    stored_bytes: int | None
    """Of the tensors on disk, where there are any."""


def read_model(path: Path, weights: str = "auto", as_family: str | None = None) -> Model:
    """`weights`: a name of `FORMATS`, or "auto": as stored, plain numbers in 16 bits as a GPU computes with them."""
    if not path.exists():
        raise PlanError(f"{path} does not exist: give a checkpoint directory, a config.json or a GGUF file")
    if path.is_file() and _begins_with(path, _GGUF):
        if weights != "auto" or as_family is not None:
            raise PlanError("a GGUF file says itself what its weights are: leave --weights and --as out")
        shape, weighed = read_gguf(path)
        return Model(path.name, shape, weighed, round(weighed.total))
    directory, file = (path, path / "config.json") if path.is_dir() else (path.parent, path)
    config = _read_json(file)
    shape = config_source.shape_of(config, as_family)
    stored = stored_bytes(directory)
    return Model(directory.resolve().name, shape, weigh(shape, _format(config, weights)), stored)


def stored_bytes(directory: Path) -> int | None:
    """Bytes of the tensors in a directory's safetensors files; None: there are none."""
    files = sorted(directory.glob("*.safetensors"))
    return sum(_tensor_bytes(file) for file in files) if files else None


def _format(config: Mapping[str, Any], weights: str) -> Any:
    if weights != "auto":
        if weights not in FORMATS:
            raise PlanError(f"--weights {weights!r}: give auto or one of {', '.join(FORMATS)}")
        return FORMATS[weights]
    plain = "fp16" if config_source.plain_type(config) == "fp16" else "bf16"
    stored = config_source.stored_format(config)
    return FORMATS[plain] if stored is None else replace(stored, plain_bytes=FORMATS[plain].plain_bytes)


def _tensor_bytes(file: Path) -> int:
    """The header is a length (u64, little-endian) and a JSON object: name → dtype, shape, [begin, end)."""
    with file.open("rb") as opened:
        head = opened.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else _HEADER_BYTES_MAX + 1
        if length > _HEADER_BYTES_MAX:
            raise PlanError(f"{file} is no safetensors file: fetch it anew (a pointer of Git LFS?)")
        try:
            header = json.loads(opened.read(length))
        except ValueError as error:
            raise PlanError(f"{file}: its header is not JSON: fetch it anew") from error
    spans = [entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"]
    return sum(end - begin for begin, end in spans)


def _begins_with(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise PlanError(
            f"{path} is missing: give a checkpoint directory, a config.json or a GGUF file"
        ) from error
    except ValueError as error:
        raise PlanError(f"{path} is neither JSON nor GGUF: {error}") from error
    if not isinstance(value, dict):
        raise PlanError(f"{path} does not hold a JSON object")
    return value
