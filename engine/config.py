"""The engine's settings: frozen groups, one place for every default, validated when they are made.

Flags of `python -m engine serve` become an `EngineConfig` (`from_flags`); the core process turns it into a
`ResolvedConfig` once it knows the model and the device (`resolve`), and nothing changes afterwards. Names are
those of `vllm serve` where the meaning is the same. Imports no torch; knows no flag syntax and opens no file.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints

if TYPE_CHECKING:
    from engine.models.model_config import ModelConfig

BLOCK_SIZE = 16
"""Tokens of a KV page. Fixed: kernels, hashes and the journal of a replica agree on it."""

LoadFormat = Literal["auto", "safetensors", "gguf", "dummy"]
Dtype = Literal["auto", "float32", "bfloat16", "float16"]
KVCacheDtype = Literal["auto", "float32", "bfloat16", "float16", "fp8", "fp8_e4m3"]
QuantizationSetting = Literal["auto", "fp8"]
RunnerKind = Literal["auto", "generate", "pooling"]
DeviceKind = Literal["auto", "cpu", "cuda"]
PreemptionMode = Literal["recompute", "swap"]
ToolCallParser = Literal["auto", "none", "hermes", "llama3_json", "mistral", "pythonic"]
ReasoningParser = Literal["auto", "none", "deepseek_r1", "qwen3"]

_CPU_LIMITS = (16, 512, None)
_GPU_LIMITS = (256, 2048, 512)
"""Default (max_num_seqs, max_num_batched_tokens, max_num_mixed_tokens) by device. Larger steps than 2,048 tokens are
no more efficient on an H200, and up to there every step is one graph."""


class ConfigError(ValueError):
    """A setting is unknown, out of range, or contradicts the model or another setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Which model, and how it is read."""

    model: str
    """A checkpoint directory, or a .gguf file."""
    tokenizer: str | None = None
    """A directory or tokenizer.json; None: the model's own."""
    served_model_name: tuple[str, ...] = ()
    """Names answered to; the first is the one reported. Empty: the base name of `model`."""
    load_format: LoadFormat = "auto"
    """"auto": what the path holds; "dummy": random weights of the configured shape, to measure with."""
    dtype: Dtype = "auto"
    """What is computed in; "auto": the checkpoint's half type on a GPU, float32 on a CPU."""
    max_model_len: int | None = None
    """Prompt + answer tokens of one request; None: what the model was made for."""
    chat_template: str | None = None
    """A file, or the template itself; None: the model's own."""
    quantization: QuantizationSetting = "auto"
    """"auto": as the checkpoint stores its weights; "fp8": projections in e4m3, quantised at load if need be."""
    quantize_head: bool = False
    """With fp8 weights, the head too (it chooses among all tokens: measure before use)."""
    generation_config: str = "auto"
    """"auto": default sampling from the model's generation_config.json; "none": OpenAI's defaults; else a directory
    with such a file."""
    tool_call_parser: ToolCallParser = "auto"
    """How the model writes calls of tools; "auto": as its chat template says; "none": tools are refused."""
    enable_auto_tool_choice: bool = True
    """Let the model call tools of its own accord; without, a call must be asked for by tool_choice."""
    reasoning_parser: ReasoningParser = "auto"
    """How the model's reasoning is told from its answer; "auto": by its chat template; "none": it is not."""
    runner: RunnerKind = "auto"
    """"auto": answers and embeddings, from the same weights; "generate" or "pooling": only the one or the other."""
    pooler_config: str | None = None
    """JSON: how embeddings are made, {"pooling_type": "LAST" or "MEAN", "normalize": true}; None: as the checkpoint says,
    else LAST, normalised."""
    seed: int = 0
    """Seeds dummy weights. A request's own seed never comes from here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """How much one step takes on, and how long the queue may get."""

    max_num_seqs: int | None = None
    """Requests that run at once; None: 256 on a GPU, 16 on a CPU."""
    max_num_batched_tokens: int | None = None
    """Tokens of one step; None: 2,048 on a GPU, 512 on a CPU."""
    max_num_mixed_tokens: int | None = None
    """Tokens of a step in which answers run beside prompts; with many answers, a multiple of it. None: 512 on a GPU, no
    such limit on a CPU."""
    max_num_queued_reqs: int = 1024
    """Requests that may wait; further ones are refused as overload."""
    max_num_queued_tokens: int = 4_000_000
    """Prompt tokens that may wait."""
    queue_deadline_s: float = 120.0
    """A request that has not started after this long is refused as overload."""
    preemption_mode: PreemptionMode = "recompute"
    """What becomes of a request that must give up its pages: it is computed again, or ("swap") its pages wait in host
    memory (--kv-offload-gib)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """The page pool."""

    gpu_memory_utilization: float = 0.9
    """Share of the GPU's memory that weights, work space and pages may take together."""
    num_gpu_blocks_override: int | None = None
    """Exact number of pages, on either device; wins over the two sizes."""
    kv_cache_memory_bytes: int | None = None
    """Bytes of the pool, on either device; None: from the memory that is free."""
    enable_prefix_caching: bool = True
    """Reuse pages of equal beginnings, within one cache salt."""
    kv_offload_gib: float = 0.0
    """Host memory for pages that the pool has no room for: a second tier of the prefix cache, and where swapped
    requests wait. Pinned on a GPU."""
    kv_cache_dtype: KVCacheDtype = "auto"
    """What keys and values are stored as; "auto": as computed; "fp8": half the bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSettings:
    """Where the model runs."""

    device: DeviceKind = "auto"
    """"auto": the GPU if there is one."""
    batch_invariant: bool = False
    """Compute each request as if it were alone: equal answers, to the bit, whatever else runs. Slower."""
    enforce_eager: bool = False
    """Capture no CUDA graphs: starts sooner, runs slower."""
    num_threads: int | None = None
    """CPU threads of the runner; None: OMP_NUM_THREADS, else one per physical core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The HTTP edge and the life of the process."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8000
    """Port to listen on; 0: any free one."""
    api_key: tuple[str, ...] = ()
    """Keys that callers may use; none: everybody may call."""
    internal_key: str | None = None
    """Bearer key of /internal and of the internal headers; None: both are off."""
    api_server_workers: int = 1
    """Processes that speak HTTP; take several where thousands of tokens a second are streamed."""
    journal_dir: str | None = None
    """Where usage journals go; None: no journal."""
    drain_grace_s: float = 15.0
    """How long requests are still taken after a drain began, though /ready already says no."""
    drain_timeout_s: float = 1200.0
    """How long running requests may take to end after that."""
    debug_invariants: bool = False
    """Check the page bookkeeping after every step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Everything a user can set. Made by `from_flags`, or by naming groups in tests."""

    model: ModelSettings
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    cache: CacheSettings = field(default_factory=CacheSettings)
    device: DeviceSettings = field(default_factory=DeviceSettings)
    server: ServerSettings = field(default_factory=ServerSettings)

    def __post_init__(self) -> None:
        for group in fields(self):
            _check_group(getattr(self, group.name))
        if "" in (*self.server.api_key, self.server.internal_key):
            # An unset variable on a command line must not open the server to everybody.
            raise ConfigError("api_key and internal_key must not be empty; leave the flag out to go without")
        if self.scheduler.preemption_mode == "swap" and not self.cache.kv_offload_gib:
            raise ConfigError("preemption_mode swap needs host memory: set kv_offload_gib")
        seqs, tokens = self.scheduler.max_num_seqs, self.scheduler.max_num_batched_tokens
        if seqs is not None and tokens is not None and tokens < seqs:
            raise ConfigError(
                f"max_num_batched_tokens must be at least max_num_seqs ({seqs}), since every running sequence "
                f"needs a token a step; got {tokens}"
            )

    @classmethod
    def from_flags(cls, flags: Mapping[str, object]) -> EngineConfig:
        """Flat field names (`max_num_seqs`, …) → groups. Raises `ConfigError` naming the nearest known field."""
        homes = field_groups()
        groups: dict[str, dict[str, Any]] = {name: {} for name in GROUPS}
        for name, value in flags.items():
            if name not in homes:
                near = difflib.get_close_matches(name, homes, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ConfigError(f"unknown setting {name}{hint}")
            groups[homes[name]][name] = value
        if not groups["model"].get("model"):
            raise ConfigError("model is required: a checkpoint directory or a .gguf file")
        return cls(**{name: group(**groups[name]) for name, group in GROUPS.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedConfig:
    """An `EngineConfig` with the open questions answered for one model on one device."""

    settings: EngineConfig
    device: Literal["cpu", "cuda"]
    dtype: Literal["float32", "bfloat16", "float16"]
    kv_dtype: Literal["float32", "bfloat16", "float16", "float8_e4m3fn"]
    quantization: Literal["fp8"] | None
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_num_mixed_tokens: int | None


GROUPS: Mapping[str, type[Any]] = {
    "model": ModelSettings,
    "scheduler": SchedulerSettings,
    "cache": CacheSettings,
    "device": DeviceSettings,
    "server": ServerSettings,
}

_RANGES: Mapping[str, tuple[float, float]] = {
    "max_model_len": (1, 10_000_000),
    "seed": (0, 2**63 - 1),
    "max_num_seqs": (1, 4096),
    "max_num_batched_tokens": (16, 1_048_576),
    "max_num_mixed_tokens": (16, 1_048_576),
    "max_num_queued_reqs": (1, 1_000_000),
    "max_num_queued_tokens": (1, 10**12),
    "queue_deadline_s": (0.001, 86_400),
    "gpu_memory_utilization": (0.01, 1.0),
    "num_gpu_blocks_override": (2, 2**31 - 1),
    "kv_cache_memory_bytes": (1, 2**50),
    "kv_offload_gib": (0, 16_384),
    "num_threads": (1, 1024),
    "port": (0, 65_535),
    "api_server_workers": (1, 64),
    "drain_grace_s": (0, 86_400),
    "drain_timeout_s": (0, 86_400),
}


def field_groups() -> dict[str, str]:
    """Field name → name of its group, for every setting."""
    return {entry.name: group for group, kind in GROUPS.items() for entry in fields(kind)}


def resolve(config: EngineConfig, model: ModelConfig, device: Literal["cpu", "cuda"]) -> ResolvedConfig:
    """Fill what depends on the model and the device. Raises `ConfigError` on a contradiction."""
    if config.device.device not in ("auto", device):
        raise ConfigError(f"device is {config.device.device}, but the runner was started on {device}")
    max_model_len = config.model.max_model_len or model.max_positions
    if max_model_len > model.max_positions:
        raise ConfigError(
            f"max_model_len must be at most {model.max_positions}, the positions this model knows; "
            f"got {max_model_len}"
        )
    seqs, tokens, mixed = _CPU_LIMITS if device == "cpu" else _GPU_LIMITS
    max_num_seqs = config.scheduler.max_num_seqs or min(seqs, config.scheduler.max_num_batched_tokens or seqs)
    max_num_batched_tokens = config.scheduler.max_num_batched_tokens or max(tokens, max_num_seqs)
    dtype = _resolve_dtype(config.model.dtype, model.dtype, device)
    if config.model.quantize_head and config.model.quantization != "fp8" and model.quantization is None:
        raise ConfigError("quantize_head belongs to fp8 weights: add --quantization fp8, or leave it out")
    return ResolvedConfig(
        settings=config,
        device=device,
        dtype=dtype,
        kv_dtype=_resolve_kv_dtype(config.cache.kv_cache_dtype, dtype),
        quantization="fp8" if config.model.quantization == "fp8" else model.quantization,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_mixed_tokens=config.scheduler.max_num_mixed_tokens or mixed,
    )


def _resolve_dtype(
    wanted: Dtype, checkpoint: str, device: Literal["cpu", "cuda"]
) -> Literal["float32", "bfloat16", "float16"]:
    """CPUs compute in fp32 (half types are slower without matrix units), GPUs in the checkpoint's half type."""
    if wanted != "auto":
        return wanted
    if device == "cpu":
        return "float32"
    return "float16" if checkpoint == "float16" else "bfloat16"


def _resolve_kv_dtype(
    wanted: KVCacheDtype, dtype: Literal["float32", "bfloat16", "float16"]
) -> Literal["float32", "bfloat16", "float16", "float8_e4m3fn"]:
    if wanted == "auto":
        return dtype
    if wanted == "fp8" or wanted == "fp8_e4m3":
        return "float8_e4m3fn"
    return wanted


def _check_group(group: object) -> None:
    hints = get_type_hints(type(group))
    for entry in fields(group):  # type: ignore[arg-type]  # every group is a dataclass
        value = getattr(group, entry.name)
        _check_type(entry.name, value, hints[entry.name])
        if value is not None and entry.name in _RANGES:
            low, high = _RANGES[entry.name]
            if not low <= value <= high:
                raise ConfigError(f"{entry.name} must be between {low:,} and {high:,}, got {value}")


def _check_type(name: str, value: object, hint: Any) -> None:
    options = get_args(hint)
    if getattr(hint, "__origin__", None) is Literal:
        if value not in options:
            raise ConfigError(f"{name} must be one of {', '.join(map(str, options))}, got {value!r}")
        return
    if getattr(hint, "__origin__", None) is tuple:
        if not isinstance(value, tuple) or not all(isinstance(item, str) for item in value):
            raise ConfigError(f"{name} must be a tuple of strings, got {value!r}")
        return
    allowed = options or (hint,)
    # A bool is an int to isinstance, and an int is as good as a float.
    if isinstance(value, bool) and bool not in allowed:
        raise ConfigError(f"{name} must be {_names(allowed)}, got {value!r}")
    if not isinstance(value, tuple({*allowed, int} if float in allowed else allowed)):
        raise ConfigError(f"{name} must be {_names(allowed)}, got {value!r}")


def _names(kinds: tuple[type, ...]) -> str:
    return " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
