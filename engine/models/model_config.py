"""What the decoder definitions need to know about a checkpoint: one frozen record for all families.

`config_reader.read_config` makes it from a Hugging Face `config.json` or from GGUF metadata.
Imports neither torch nor a tokenizer, so the API process can read it too. Knows no weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from engine.core.contract import KVGroup

Family = Literal["llama", "qwen2", "qwen3", "mistral", "gemma3"]
RopeScalingKind = Literal["default", "linear", "llama3", "yarn"]
GatedAct = Literal["silu", "gelu_tanh"]
Quantization = Literal["fp8"]


class ModelConfigError(ValueError):
    """The checkpoint's configuration is missing, contradictory or of a family we do not serve."""


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How the rope frequencies are stretched beyond the length the model was first trained on."""

    kind: RopeScalingKind = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_positions: int = 8192
    beta_fast: float = 32.0
    """YaRN: waves that turn more often than this over the original length are kept."""
    beta_slow: float = 1.0
    """YaRN: waves that turn less often are slowed by `factor`."""
    attention_factor: float = 1.0
    """YaRN: what cosines and sines are multiplied by, hence scores by its square."""
    truncate: bool = True
    """YaRN: the two bounds between which it blends are whole frequencies."""

    def reach(self, stated: int) -> int:
        """Positions of a model. Where YaRN is switched on by hand, the checkpoint often still states the length it
        starts from."""
        if self.kind != "yarn":
            return stated
        return max(stated, int(self.original_max_positions * self.factor))


def yarn_attention_factor(factor: float, weight: float = 1.0) -> float:
    """What YaRN multiplies cosines and sines with when a context is stretched by `factor`."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A decoder's shape and constants."""

    family: Family
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn_size: int
    vocab_size: int
    norm_eps: float
    rope_base: float
    rope_scaling: RopeScaling
    max_positions: int
    eos_token_ids: tuple[int, ...]
    bos_token_id: int | None = None
    act: GatedAct = "silu"
    tie_embeddings: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    """Of the attention's output projection."""
    qk_norm: bool = False
    """Query and key heads are RMS-normalised before they are turned."""
    mlp_bias: bool = False
    rope_base_local: float | None = None
    """Rope base of the sliding-window layers (never scaled); None: they use `rope_base`."""
    rope_freq_divisors: tuple[float, ...] = ()
    """One divisor per rope frequency of the unwindowed layers, where a checkpoint stores its scaling so."""
    sliding_window: int | None = None
    layer_windows: tuple[int | None, ...] = ()
    """Per layer: the window it attends over, None for full attention."""
    embedding_scale: float = 1.0
    attention_scale: float = 1.0
    """Factor on q·k."""
    attention_soft_cap: float | None = None
    final_soft_cap: float | None = None
    dtype: str = "bfloat16"
    """The checkpoint's own type, the default for `--dtype auto`."""
    quantization: Quantization | None = None
    """What the checkpoint's projections are stored as, if not plainly."""

    def __post_init__(self) -> None:
        if self.num_heads % self.num_kv_heads:
            raise ModelConfigError(f"{self.num_heads} heads cannot share {self.num_kv_heads} kv heads")
        if len(self.layer_windows) != self.num_layers:
            raise ModelConfigError(f"{len(self.layer_windows)} layer kinds for {self.num_layers} layers")


def kv_groups(config: ModelConfig) -> tuple[KVGroup, ...]:
    """Split the layers into groups of equal count with one window each.

    The rarest kind of layer sets the count (Gemma 3 270M: 3 global layers, 15 local: 1 + 5 groups); a
    last group that cannot be filled is padded with layer id -1.
    """
    by_window: dict[int | None, list[int]] = {}
    for layer, window in enumerate(config.layer_windows):
        by_window.setdefault(window, []).append(layer)
    size = min(len(layers) for layers in by_window.values())
    groups = []
    for window, layers in by_window.items():
        for start in range(0, len(layers), size):
            part = layers[start : start + size]
            part += [-1] * (size - len(part))
            groups.append(KVGroup(layer_ids=tuple(part), window=window))
    return tuple(groups)
