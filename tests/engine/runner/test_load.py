"""engine.runner.load: a checkpoint on disk becomes a runner that answers, and mismatches are named."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from engine.config import ConfigError, EngineConfig
from engine.core.contract import KVLayout
from engine.messages import SamplingParams
from engine.models.config_reader import read_config
from engine.runner.load import BuiltRunner, build_runner
from engine.text.assets import eos_token_ids
from tests.engine.runner.driver import Driver
from tests.models import write_tiny_gemma3, write_tiny_llama


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("models") / "llama")


def _build(path: Path, **flags: object) -> BuiltRunner:
    defaults = {"model": str(path), "device": "cpu", "num_threads": 1, "num_gpu_blocks_override": 300}
    return build_runner(EngineConfig.from_flags(defaults | flags))


def _answer(built: BuiltRunner, layout: KVLayout) -> list[int]:
    driver = Driver(built.runner, layout)
    row = driver.add(0, list(range(5, 45)), SamplingParams(seed=3, max_tokens=9, temperature=0.0))
    driver.run(num_outputs=12)
    built.runner.close()
    return row.outputs


def test_llama_answers(llama: Path) -> None:
    built = _build(llama)
    assert built.layout.num_blocks == 300
    assert built.layout.block_size == 16
    assert built.model.family == "llama"
    assert (built.config.device, built.config.dtype, built.config.max_model_len) == ("cpu", "float32", 1024)
    first = _answer(built, built.layout)
    assert len(set(first)) > 3
    again = _build(llama, load_format="safetensors")
    assert _answer(again, again.layout) == first


def test_gemma3_groups_by_window_and_bounds_its_pool(tmp_path: Path) -> None:
    built = _build(
        write_tiny_gemma3(tmp_path),
        max_model_len=100,
        num_gpu_blocks_override=None,
        kv_cache_memory_bytes=2**30,
        max_num_seqs=2,
    )
    assert {group.window for group in built.layout.groups} == {None, 24}
    # Two rows of 100 tokens: 7 pages a group at most, and the memory given would hold far more.
    assert built.layout.num_blocks == 2 * 7 * len(built.layout.groups)
    assert len(_answer(built, built.layout)) == 12


def test_dummy_weights_follow_the_seed(llama: Path) -> None:
    answers = []
    for seed in (1, 1, 2):
        built = _build(llama, load_format="dummy", seed=seed)
        answers.append(_answer(built, built.layout))
    assert answers[0] == answers[1] != answers[2]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"load_format": "gguf"}, "load_format is gguf"),
        ({"device": "cuda"}, "torch sees no GPU"),
        ({"max_model_len": 2000}, "max_model_len must be at most 1024"),
        ({"num_gpu_blocks_override": 10}, "only 10 fit"),
    ],
)
def test_mismatches_are_named(
    llama: Path, flags: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ConfigError, match=message):
        _build(llama, **flags)


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere does not exist"):
        _build(tmp_path / "nowhere")


def test_end_tokens_are_those_of_configuration_and_tokenizer(tmp_path: Path) -> None:
    path = write_tiny_gemma3(tmp_path)
    end_of_turn = 5
    # A converter that records one end token only; the tokenizer still knows the end of a turn.
    (path / "generation_config.json").write_text(json.dumps({"eos_token_id": 1}))
    added = {str(end_of_turn): {"content": "<end_of_turn>", "special": True}}
    (path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    assert read_config(path).eos_token_ids == (1,)
    built = _build(path)
    assert set(built.model.eos_token_ids) == {1, end_of_turn} == set(eos_token_ids(path))
    driver = Driver(built.runner, built.layout)
    waiting = SamplingParams(
        seed=1, max_tokens=9, min_tokens=1, temperature=0.0, logit_bias={end_of_turn: 1e4, 7: 1e3}
    )
    row = driver.add(0, [5, 6, 8], waiting)
    driver.run(num_outputs=2)
    built.runner.close()
    assert row.outputs == [7, end_of_turn]


def test_fp8_weights_and_cache_answer_on_a_cpu_and_say_what_they_cost(
    llama: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = _build(llama)
    with caplog.at_level(logging.WARNING):
        built = _build(llama, quantization="fp8", quantize_head=True, kv_cache_dtype="fp8")
    assert "on a CPU fp8 weights are widened" in caplog.text
    assert (built.config.quantization, built.config.kv_dtype) == ("fp8", "float8_e4m3fn")
    assert len(set(_answer(built, built.layout))) > 3
    assert plain.config.quantization is None
    plain.runner.close()
