"""The GGUF reader against files written by the `gguf` package, and against damaged files."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.gguf import GGUFError, GGUFFile, TensorType


def _head(num_tensors: int, num_pairs: int, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, num_tensors, num_pairs)


WORDS = ["<pad>", "ä", "▁the", "日本", ""]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "sample.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_uint32("x.u32", 7)
    writer.add_int64("x.i64", -5)
    writer.add_float32("x.f32", 0.5)
    writer.add_float64("x.f64", 0.1)
    writer.add_bool("x.flag", True)
    writer.add_string("x.text", "größer")
    writer.add_array("x.words", WORDS)
    writer.add_array("x.scores", [0.5, -1.0, 2.25])
    writer.add_array("x.ids", [3, 1, 2])
    writer.add_tensor("a.weight", np.arange(12, dtype=np.float32).reshape(3, 4))
    writer.add_tensor("b.weight", np.ones((2, 32), dtype=np.float16))
    quantized = gguf.quants.quantize(np.ones((5, 64), np.float32), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("c.weight", quantized, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_metadata_comes_back_typed(sample: Path) -> None:
    metadata = GGUFFile(sample).metadata
    assert metadata["general.architecture"] == "llama"
    assert metadata.int_of("x.u32") == 7
    assert metadata.int_of("x.i64") == -5
    assert metadata.float_of("x.f32") == 0.5
    assert metadata.float_of("x.f64") == 0.1
    assert metadata.bool_of("x.flag") is True
    assert metadata.str_of("x.text") == "größer"
    assert metadata.strings_of("x.words") == WORDS
    assert metadata.numbers_of("x.scores").tolist() == [0.5, -1.0, 2.25]
    assert metadata.numbers_of("x.ids").tolist() == [3, 1, 2]
    assert set(metadata) >= {"x.u32", "x.words"}


def test_defaults_and_wrong_kinds(sample: Path) -> None:
    metadata = GGUFFile(sample).metadata
    assert metadata.int_of("x.none", 3) == 3
    with pytest.raises(GGUFError, match=r"x\.none.*missing"):
        metadata.int_of("x.none")
    with pytest.raises(GGUFError, match=r"x\.text.*another type"):
        metadata.int_of("x.text", 3)
    with pytest.raises(GGUFError, match="not an array of strings"):
        metadata.strings_of("x.scores")
    with pytest.raises(GGUFError, match="not an array of numbers"):
        metadata.numbers_of("x.words")


def test_tensors_have_torch_order_shapes_and_raw_bytes(sample: Path) -> None:
    tensors = GGUFFile(sample).tensors
    assert list(tensors) == ["a.weight", "b.weight", "c.weight"]
    assert [(t.type, t.shape) for t in tensors.values()] == [
        (TensorType.F32, (3, 4)),
        (TensorType.F16, (2, 32)),
        (TensorType.Q8_0, (5, 64)),
    ]
    assert tensors["a.weight"].data.view(np.float32).tolist() == list(range(12))
    assert tensors["c.weight"].data.nbytes == 5 * 2 * 34


def test_every_truncation_is_an_error_of_the_reader(sample: Path, tmp_path: Path) -> None:
    whole = sample.read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in (*range(700), len(whole) // 2, len(whole) - 64):
        cut.write_bytes(whole[:length])
        with pytest.raises(GGUFError, match=r"cut\.gguf: "):
            GGUFFile(cut)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"GGML" + bytes(40), "not a GGUF file"),
        (_head(0, 0, version=1) + bytes(40), "version 1 is not supported"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0) + bytes(40), "is not supported"),
        (_head(2**60, 0), "cannot fit"),
        (
            _head(0, 1) + struct.pack("<Q1sI", 1, b"k", 77),
            "unknown type number 77",
        ),
        (
            _head(0, 1) + struct.pack("<Q", 2**63),
            "truncated inside a metadata key",
        ),
        (
            _head(0, 1) + struct.pack("<Q1sIIQ", 1, b"k", 9, 8, 2**40),
            "truncated inside the value of 'k'",
        ),
        (
            _head(1, 0) + struct.pack("<Q1sIQIQ", 1, b"t", 1, 32, 19, 0),
            "tensor 't' has type number 19",
        ),
        (
            _head(1, 0) + struct.pack("<Q1sIQIQ", 1, b"t", 1, 33, 8, 0),
            "do not divide into blocks of 32",
        ),
    ],
)
def test_malformed_files_are_named(tmp_path: Path, head: bytes, message: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(head + bytes(16))
    with pytest.raises(GGUFError, match=message):
        GGUFFile(path)
