"""From settings to a runner that is ready: configuration, weights, worst case, page pool, warm-up.

Place in the path: the core process's main calls `build_runner` once and makes its `CoreConfig` from the
answer. Knows no sockets and no requests.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from engine.config import BLOCK_SIZE, ConfigError, EngineConfig, ModelSettings, ResolvedConfig, resolve
from engine.core.contract import KVLayout
from engine.layers.batch import CausalLM
from engine.models.config_reader import read_config
from engine.models.loader import load_model
from engine.models.model_config import ModelConfig
from engine.models.quantization import Fp8Parts
from engine.runner import kv
from engine.runner.gpu import GPURunner
from engine.runner.runner import TorchRunner
from engine.text.assets import eos_token_ids

_log = logging.getLogger(__name__)

_CPU_WARM_UP = (1, 64)
"""Rows and tokens: enough for every one-time initialisation, a fraction of a second."""


@dataclass(frozen=True, slots=True)
class BuiltRunner:
    """A runner and what the core process has to know about it."""

    runner: TorchRunner | GPURunner
    layout: KVLayout
    model: ModelConfig
    config: ResolvedConfig
    warm_up_s: float
    """What trying the largest step, compiling kernels and capturing graphs took."""


def build_runner(config: EngineConfig) -> BuiltRunner:
    """Raises `ConfigError` or `ModelConfigError` when settings, checkpoint and machine do not fit together."""
    path = _checkpoint(config.model)
    model_config = _with_all_end_tokens(read_config(path), path, config.model.generation_config)
    resolved = resolve(config, model_config, _device_kind(config.device.device))
    device = torch.device(resolved.device)
    if config.device.num_threads is not None:
        torch.set_num_threads(config.device.num_threads)
    model = load_model(
        path,
        dtype=kv.torch_dtype(resolved.dtype),
        device=device,
        load_format="dummy" if config.model.load_format == "dummy" else "auto",
        max_positions=resolved.max_model_len,
        config=model_config,
        seed=config.model.seed,
        fp8=Fp8Parts(
            weights=resolved.quantization == "fp8",
            head=config.model.quantize_head,
            kv_cache=resolved.kv_dtype == "float8_e4m3fn",
        ),
        batch_invariant=config.device.batch_invariant,
    )
    if resolved.device == "cpu" and resolved.quantization is not None:
        _log.warning(
            "on a CPU fp8 weights are widened at load: answers are those of a GPU, memory is not saved"
        )
    loaded_s = time.monotonic()
    layout = kv.layout_for(
        resolved, model_config, model.kv_groups, _memory_for_pages(model, resolved, device)
    )
    runner = _runner(model, resolved, layout, device)
    if isinstance(runner, TorchRunner):
        runner.warm_up(*_CPU_WARM_UP)
    elif not resolved.settings.device.enforce_eager:
        runner.capture()
    warm_up_s = time.monotonic() - loaded_s
    ready = "runner ready: %s on %s in %s, %d KV pages, warm after %.1f s"
    _log.info(ready, path.name, device, resolved.dtype, layout.num_blocks, warm_up_s)
    return BuiltRunner(runner, layout, model_config, resolved, warm_up_s)


def _runner(
    model: CausalLM, config: ResolvedConfig, layout: KVLayout, device: torch.device
) -> TorchRunner | GPURunner:
    pool = kv.allocate(layout, model.config, kv.torch_dtype(config.kv_dtype), device)
    if device.type == "cuda":
        return GPURunner(
            model,
            pool,
            layout,
            max_num_seqs=config.max_num_seqs,
            max_model_len=config.max_model_len,
            max_num_batched_tokens=config.max_num_batched_tokens,
            dtype=kv.torch_dtype(config.dtype),
            batch_invariant=config.settings.device.batch_invariant,
        )
    return TorchRunner(
        model,
        pool,
        layout,
        max_num_seqs=config.max_num_seqs,
        max_model_len=config.max_model_len,
        num_threads=config.settings.device.num_threads,
        batch_invariant=config.settings.device.batch_invariant,
    )


def _memory_for_pages(model: CausalLM, config: ResolvedConfig, device: torch.device) -> int:
    """On a GPU what the largest step and the graphs leave of the allowed share: both are tried here, on a
    pool of one page."""
    if config.device == "cpu":
        return kv.cpu_budget()
    # What loading needed for a moment (an unquantised matrix) is no part of what a step needs.
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    rehearsal = _runner(model, config, KVLayout(BLOCK_SIZE, 1, model.kv_groups), device)
    assert isinstance(rehearsal, GPURunner)
    rehearsal.warm_up()
    if not config.settings.device.enforce_eager:
        rehearsal.capture(largest_only=True)
    rehearsal.close()
    budget = kv.gpu_budget(device, config.settings.cache.gpu_memory_utilization)
    del rehearsal
    torch.cuda.empty_cache()
    return budget


def _with_all_end_tokens(model: ModelConfig, path: Path, generation_config: str) -> ModelConfig:
    """The tokenizer may know end tokens (of a turn) that the configuration leaves out: what ends an answer
    must also be what min_tokens forbids."""
    every = {*model.eos_token_ids, *eos_token_ids(path, generation_config)}
    return dataclasses.replace(model, eos_token_ids=tuple(sorted(every)))


def _checkpoint(settings: ModelSettings) -> Path:
    path = Path(settings.model)
    if not path.exists():
        raise ConfigError(f"model must be a checkpoint directory or a .gguf file; {path} does not exist")
    wanted = {"gguf": path.is_file(), "safetensors": path.is_dir()}
    if not wanted.get(settings.load_format, True):
        raise ConfigError(f"load_format is {settings.load_format}, but {path} is not of that kind")
    return path


def _device_kind(wanted: Literal["auto", "cpu", "cuda"]) -> Literal["cpu", "cuda"]:
    if wanted == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device is cuda, but torch sees no GPU")
    return "cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu"
