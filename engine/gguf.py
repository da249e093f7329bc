"""GGUF files, memory-mapped: metadata and raw tensor bytes.

Read by `engine.models` (configuration, weights) and by `engine.text` (tokenizer), so it imports no torch.
Long metadata arrays are located when the file is opened and decoded when asked for: opening a file with
a 262k-entry vocabulary takes a tenth of a second. Knows the container only; what the blocks of a
quantised tensor mean is in `engine.layers.gguf_quants`, what the keys mean is the readers' business.

Layout, little-endian: "GGUF", version u32, tensor count u64, pair count u64; pairs (key, type u32, value);
tensor records (name, rank u32, dims u64 × rank with the fastest first, type u32, offset u64); padding to
`general.alignment`; data. A string is its length u64 and its UTF-8 bytes.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Scalar = int | float | bool | str
NumberArray = NDArray[np.generic]
MetadataValue = Scalar | list[str] | NumberArray

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_RANK = 4
_MIN_PAIR_BYTES = 13
_MIN_TENSOR_BYTES = 24
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_SCALARS: dict[int, tuple[str, type[int] | type[float] | type[bool]]] = {
    0: ("<u1", int),
    1: ("<i1", int),
    2: ("<u2", int),
    3: ("<i2", int),
    4: ("<u4", int),
    5: ("<i4", int),
    6: ("<f4", float),
    7: ("<u1", bool),
    10: ("<u8", int),
    11: ("<i8", int),
    12: ("<f8", float),
}
_STRING = 8
_ARRAY = 9


class GGUFError(ValueError):
    """The file is not a GGUF file that we can read; the message says where it goes wrong."""


class TensorType(IntEnum):
    """Element types that we read; the numbers are the format's."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    BF16 = 30


BLOCK_LAYOUT: dict[TensorType, tuple[int, int]] = {
    TensorType.F32: (1, 4),
    TensorType.F16: (1, 2),
    TensorType.BF16: (1, 2),
    TensorType.Q4_0: (32, 18),
    TensorType.Q4_1: (32, 20),
    TensorType.Q5_0: (32, 22),
    TensorType.Q5_1: (32, 24),
    TensorType.Q8_0: (32, 34),
    TensorType.Q4_K: (256, 144),
    TensorType.Q5_K: (256, 176),
    TensorType.Q6_K: (256, 210),
}
"""Type → (elements, bytes) of one block."""


@dataclass(frozen=True, slots=True)
class GGUFTensor:
    """One tensor as it lies in the file. `data` stays valid as long as it is referenced."""

    name: str
    type: TensorType
    shape: tuple[int, ...]
    """Slowest dimension first, as in torch: a weight is (out, in)."""
    data: NDArray[np.uint8]
    """Raw bytes; blocks run along the last dimension."""


@dataclass(frozen=True, slots=True)
class _ArraySpan:
    """A metadata array that has been located but not decoded."""

    type: int
    count: int
    offset: int


class Metadata(Mapping[str, MetadataValue]):
    """Key → value. Arrays of strings come as lists, of numbers as numpy arrays, decoded at each access."""

    def __init__(self, reader: _Reader, entries: dict[str, Scalar | _ArraySpan]) -> None:
        self._reader = reader
        self._entries = entries

    def __getitem__(self, key: str) -> MetadataValue:
        entry = self._entries[key]
        return self._reader.array(entry) if isinstance(entry, _ArraySpan) else entry

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def str_of(self, key: str, default: str | None = None) -> str:
        return self._typed(key, str, default)

    def int_of(self, key: str, default: int | None = None) -> int:
        return self._typed(key, int, default)

    def float_of(self, key: str, default: float | None = None) -> float:
        return float(self._typed(key, (float, int), default))

    def bool_of(self, key: str, default: bool | None = None) -> bool:
        return self._typed(key, bool, default)

    def strings_of(self, key: str) -> list[str]:
        value = self._require(key)
        if not isinstance(value, list):
            raise GGUFError(f"metadata key {key!r} is not an array of strings")
        return value

    def numbers_of(self, key: str) -> NumberArray:
        value = self._require(key)
        if not isinstance(value, np.ndarray):
            raise GGUFError(f"metadata key {key!r} is not an array of numbers")
        return value

    def _require(self, key: str) -> MetadataValue:
        if key not in self._entries:
            raise GGUFError(f"metadata key {key!r} is missing")
        return self[key]

    def _typed(self, key: str, kind: type[T] | tuple[type[T], ...], default: T | None) -> T:
        value = default if key not in self._entries and default is not None else self._require(key)
        if not isinstance(value, kind):
            raise GGUFError(f"metadata key {key!r} holds {value!r}, which is of another type than expected")
        return value


class GGUFFile:
    """An open GGUF file: `metadata` and `tensors` by name, in file order."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            # A private mapping: torch can view it without a warning, and nothing reaches the file.
            with self.path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except ValueError as error:
            raise GGUFError(f"{self.path}: the file is empty") from error
        try:
            self._read(_Reader(mapped))
        except GGUFError as error:
            raise GGUFError(f"{self.path}: {error}") from error

    def _read(self, reader: _Reader) -> None:
        num_tensors, num_pairs = reader.header()
        entries: dict[str, Scalar | _ArraySpan] = {}
        for _ in range(num_pairs):
            key = reader.string("a metadata key")
            if key in entries:
                raise GGUFError(f"metadata key {key!r} occurs twice")
            entries[key] = reader.value(key)
        self.metadata = Metadata(reader, entries)
        if self.metadata.int_of("split.count", 1) > 1:
            raise GGUFError("the file is one part of a split model; merge the parts first")
        alignment = self.metadata.int_of("general.alignment", 32)
        if alignment <= 0 or alignment % 8:
            raise GGUFError(f"general.alignment is {alignment}, not a multiple of 8")
        records = [reader.tensor_record() for _ in range(num_tensors)]
        data_start = -(-reader.position // alignment) * alignment
        self.tensors: dict[str, GGUFTensor] = {}
        for name, kind, shape, offset in records:
            if name in self.tensors:
                raise GGUFError(f"tensor {name!r} occurs twice")
            self.tensors[name] = reader.tensor(name, kind, shape, data_start + offset)


class _Reader:
    """A cursor over the mapped bytes; every read is checked against the end of the file."""

    def __init__(self, buffer: mmap.mmap) -> None:
        self._buffer = buffer
        self._size = len(buffer)
        self.position = 0

    def header(self) -> tuple[int, int]:
        if self._buffer[:4] != _MAGIC:
            raise GGUFError("not a GGUF file (it does not start with 'GGUF')")
        self.position = 4
        version = self.u32("the version")
        if version not in _VERSIONS:
            raise GGUFError(f"GGUF version {version} is not supported (2 and 3, little-endian, are)")
        num_tensors, num_pairs = self.u64("the tensor count"), self.u64("the metadata count")
        if num_tensors * _MIN_TENSOR_BYTES + num_pairs * _MIN_PAIR_BYTES > self._size:
            raise GGUFError(f"truncated: {num_tensors} tensors and {num_pairs} metadata pairs cannot fit")
        return num_tensors, num_pairs

    def u32(self, what: str) -> int:
        return int(_U32.unpack_from(self._buffer, self._advance(4, what))[0])

    def u64(self, what: str) -> int:
        return int(_U64.unpack_from(self._buffer, self._advance(8, what))[0])

    def string(self, what: str) -> str:
        length = self.u64(what)
        start = self._advance(length, what)
        try:
            return self._buffer[start : start + length].decode()
        except UnicodeDecodeError as error:
            raise GGUFError(f"{what} at byte {start} is not UTF-8") from error

    def value(self, key: str) -> Scalar | _ArraySpan:
        what = f"the value of {key!r}"
        kind = self.u32(what)
        if kind == _STRING:
            return self.string(what)
        if kind == _ARRAY:
            return self._locate_array(what)
        dtype, convert = _scalar(kind, what)
        start = self._advance(np.dtype(dtype).itemsize, what)
        return convert(np.frombuffer(self._buffer, dtype, 1, start)[0])

    def array(self, span: _ArraySpan) -> list[str] | NumberArray:
        if span.type != _STRING:
            dtype, convert = _scalar(span.type, "an array")
            numbers = np.frombuffer(self._buffer, dtype, span.count, span.offset)
            return numbers.astype(np.bool_) if convert is bool else numbers
        strings = []
        position, buffer, unpack = span.offset, self._buffer, _U64.unpack_from
        for _ in range(span.count):
            start = position + 8
            position = start + unpack(buffer, position)[0]
            # Vocabularies hold single bytes that are no UTF-8 by themselves.
            strings.append(buffer[start:position].decode("utf-8", "replace"))
        return strings

    def tensor_record(self) -> tuple[str, int, tuple[int, ...], int]:
        name = self.string("a tensor name")
        what = f"the record of tensor {name!r}"
        rank = self.u32(what)
        if not 1 <= rank <= _MAX_RANK:
            raise GGUFError(f"tensor {name!r} has {rank} dimensions")
        dims = [self.u64(what) for _ in range(rank)]
        return name, self.u32(what), tuple(reversed(dims)), self.u64(what)

    def tensor(self, name: str, kind: int, shape: tuple[int, ...], start: int) -> GGUFTensor:
        try:
            tensor_type = TensorType(kind)
        except ValueError:
            known = ", ".join(member.name for member in TensorType)
            raise GGUFError(f"tensor {name!r} has type number {kind}; supported are {known}") from None
        block, block_bytes = BLOCK_LAYOUT[tensor_type]
        if shape[-1] % block:
            raise GGUFError(f"tensor {name!r}: rows of {shape[-1]} do not divide into blocks of {block}")
        count = 1
        for size in shape:
            count *= size
        num_bytes = count // block * block_bytes
        if start + num_bytes > self._size:
            raise GGUFError(f"truncated: tensor {name!r} ends at {start + num_bytes} of {self._size} bytes")
        data = np.frombuffer(self._buffer, np.uint8, num_bytes, start)
        return GGUFTensor(name, tensor_type, shape, data)

    def _locate_array(self, what: str) -> _ArraySpan:
        kind, count = self.u32(what), self.u64(what)
        span = _ArraySpan(kind, count, self.position)
        if kind == _ARRAY:
            raise GGUFError(f"{what} is an array of arrays, which is not supported")
        if kind != _STRING:
            dtype, _ = _scalar(kind, what)
            self._advance(count * np.dtype(dtype).itemsize, what)
            return span
        position, buffer, unpack, end = self.position, self._buffer, _U64.unpack_from, self._size - 8
        for _ in range(count):
            if position > end:
                raise GGUFError(f"truncated inside {what}")
            position += 8 + unpack(buffer, position)[0]
        self._advance(position - self.position, what)
        return span

    def _advance(self, num_bytes: int, what: str) -> int:
        """Move past `num_bytes` and return where they start."""
        start = self.position
        if start + num_bytes > self._size:
            raise GGUFError(f"truncated inside {what} at byte {start} of {self._size}")
        self.position = start + num_bytes
        return start


def _scalar(kind: int, what: str) -> tuple[str, type[int] | type[float] | type[bool]]:
    if kind not in _SCALARS:
        raise GGUFError(f"{what} has the unknown type number {kind}")
    return _SCALARS[kind]
