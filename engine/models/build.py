"""Pieces that all decoder definitions are assembled from, and the list of tensors that they take.

`Parts` turns a weight source into layers on one device and in one dtype, one tensor at a time, so that
a checkpoint is never in memory twice. Knows names and shapes; the order of computation is the families'.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.core.contract import KVGroup
from engine.gguf import TensorType
from engine.layers.attention import Attention
from engine.layers.embedding import (
    CompactHead,
    DenseHead,
    DenseRows,
    Embedding,
    GGUFRows,
    Head,
    RowTable,
    SoftCappedHead,
)
from engine.layers.fp8_linear import Fp8Linear, Projection
from engine.layers.invariant import FP8_LAUNCH, InvariantHead, InvariantLinear
from engine.layers.kv_scale import kv_scale
from engine.layers.linear import Linear, packs_bfloat16
from engine.layers.mlp import MLP
from engine.layers.norm import RMSNorm
from engine.layers.rope import inverse_frequencies, rope_table
from engine.models.model_config import ModelConfig, RopeScaling, kv_groups
from engine.models.quantization import Fp8Parts
from engine.models.weights import Shape, WeightError, WeightSource
from kernels.e4m3 import E4M3
from kernels.quantize import quantize_rows

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
FINAL_NORM = "model.norm.weight"


def decoder_shapes(config: ModelConfig, layer_norms: tuple[str, ...]) -> dict[str, Shape]:
    """Canonical name → shape of everything a decoder of this configuration consists of."""
    hidden, ffn = config.hidden_size, config.ffn_size
    query, value = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    attention = {"q_proj": (query, hidden), "k_proj": (value, hidden), "v_proj": (value, hidden)}
    attention["o_proj"] = (hidden, query)
    mlp = {"gate_proj": (ffn, hidden), "up_proj": (ffn, hidden), "down_proj": (hidden, ffn)}
    shapes: dict[str, Shape] = {EMBEDDING: (config.vocab_size, hidden), FINAL_NORM: (hidden,)}
    if not config.tie_embeddings:
        shapes[HEAD] = (config.vocab_size, hidden)
    for layer in range(config.num_layers):
        prefix = f"model.layers.{layer}."
        for block, matrices in (("self_attn", attention), ("mlp", mlp)):
            for name, shape in matrices.items():
                shapes[f"{prefix}{block}.{name}.weight"] = shape
                if _has_bias(config, name):
                    shapes[f"{prefix}{block}.{name}.bias"] = shape[:1]
        for name in layer_norms:
            shapes[f"{prefix}{name}.weight"] = (hidden,)
        if config.qk_norm:
            for name in ("q_norm", "k_norm"):
                shapes[f"{prefix}self_attn.{name}.weight"] = (config.head_dim,)
    return shapes


def _has_bias(config: ModelConfig, projection: str) -> bool:
    if projection in ("q_proj", "k_proj", "v_proj"):
        return config.qkv_bias
    return config.out_bias if projection == "o_proj" else config.mlp_bias


class Parts:
    """Builds layers from a source whose shapes have been checked."""

    def __init__(
        self,
        config: ModelConfig,
        source: WeightSource,
        *,
        dtype: torch.dtype,
        device: torch.device,
        num_positions: int,
        fp8: Fp8Parts,
        batch_invariant: bool = False,
    ) -> None:
        self.config, self._source = config, source
        self._dtype, self._device, self._num_positions, self._fp8 = dtype, device, num_positions, fp8
        self._batch_invariant = batch_invariant
        self.groups = kv_groups(config)
        self._places = _places(self.groups)

    def norm(self, name: str) -> RMSNorm:
        weight = self._source.tensor(name).to(self._device, torch.float32)
        return RMSNorm(weight, self.config.norm_eps)

    def linear(self, *stems: str, bias: bool) -> Projection:
        """The projections `stems` of one input as one product."""
        names = [f"{stem}.weight" for stem in stems]
        offset = torch.cat([self._load(f"{stem}.bias") for stem in stems]) if bias else None
        if self._in_fp8(names):
            quantized, scales = zip(*map(self._load_fp8, names), strict=True)
            return self._fp8_linear(torch.cat(quantized), torch.cat(scales), offset)
        return self._linear(torch.cat([self._load(name) for name in names]), offset)

    def rope(self, base: float, scaling: RopeScaling, divisors: tuple[float, ...] = ()) -> Tensor:
        inv_freq = inverse_frequencies(self.config.head_dim, base, scaling, divisors)
        return rope_table(inv_freq.to(self._device), self._num_positions, scaling.attention_factor)

    def attention(self, layer: int, rope: Tensor) -> Attention:
        config, prefix = self.config, f"model.layers.{layer}.self_attn."
        group, index = self._places[layer]
        return Attention(
            qkv=self.linear(
                *(prefix + name for name in ("q_proj", "k_proj", "v_proj")), bias=config.qkv_bias
            ),
            out=self.linear(prefix + "o_proj", bias=config.out_bias),
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            rope=rope,
            group=group,
            index=index,
            scale=config.attention_scale,
            window=config.layer_windows[layer],
            soft_cap=config.attention_soft_cap,
            q_norm=self.norm(f"{prefix}q_norm.weight") if config.qk_norm else None,
            k_norm=self.norm(f"{prefix}k_norm.weight") if config.qk_norm else None,
            kv_scale=self._kv_scale(layer) if self._fp8.kv_cache else None,
        )

    def mlp(self, layer: int) -> MLP:
        prefix, bias = f"model.layers.{layer}.mlp.", self.config.mlp_bias
        return MLP(
            gate_up=self.linear(prefix + "gate_proj", prefix + "up_proj", bias=bias),
            down=self.linear(prefix + "down_proj", bias=bias),
            act=self.config.act,
        )

    def embedding(self) -> Embedding:
        return Embedding(self._rows(EMBEDDING), self._dtype, self.config.embedding_scale)

    def head(self) -> Head:
        name = EMBEDDING if self.config.tie_embeddings else HEAD
        raw = self._source.raw(name)
        head: Head
        if (
            raw is not None
            and raw.type is TensorType.Q8_0
            and self._device.type == "cpu"
            and not self._fp8.head
        ):
            head = CompactHead(GGUFRows(raw), bfloat16=packs_bfloat16())
        elif self._fp8.head:
            head = DenseHead(self._fp8_linear(*self._load_fp8(name)))
        else:
            head = DenseHead(self._linear(self._load(name)))
        cap = self.config.final_soft_cap
        if cap is not None:
            head = SoftCappedHead(head, cap)
        is_tiled = self._batch_invariant and self._device.type == "cpu"
        return InvariantHead(head, self.config.vocab_size) if is_tiled else head

    def _rows(self, name: str) -> RowTable:
        """On the CPU rows stay as the file has them: a step touches few."""
        raw = self._source.raw(name)
        if self._device.type != "cpu":
            return DenseRows(self._load(name))
        return DenseRows(self._source.tensor(name)) if raw is None else GGUFRows(raw)

    def _linear(self, weight: Tensor, bias: Tensor | None = None) -> Linear:
        return (InvariantLinear if self._batch_invariant else Linear)(weight, bias)

    def _fp8_linear(self, weight: Tensor, scale: Tensor, bias: Tensor | None = None) -> Fp8Linear:
        if self._batch_invariant:
            return Fp8Linear(weight, scale, self._dtype, bias, InvariantLinear, FP8_LAUNCH)
        return Fp8Linear(weight, scale, self._dtype, bias)

    def _in_fp8(self, names: Sequence[str]) -> bool:
        """A checkpoint in fp8 has left some projections as they were, for a reason."""
        stored_plainly = self.config.quantization is None
        return self._fp8.weights and (
            stored_plainly or any(self._source.scale(name) is not None for name in names)
        )

    def _kv_scale(self, layer: int) -> Tensor:
        """[2, Hk]: the checkpoint's, which knows one for all heads, or from the weights."""
        given = self._source.kv_scale(layer)
        if given is not None:
            return given.to(self._device)[:, None].repeat(1, self.config.num_kv_heads)
        prefix = f"model.layers.{layer}."
        key, value = (f"{prefix}self_attn.{name}_proj" for name in "kv")
        bias = self.config.qkv_bias
        return kv_scale(
            self._load(f"{key}.weight"),
            self._load(f"{value}.weight"),
            self.norm(f"{prefix}input_layernorm.weight").weight,
            self._load(f"{key}.bias") if bias else None,
            self._load(f"{value}.bias") if bias else None,
            self.norm(f"{prefix}self_attn.k_norm.weight").weight if self.config.qk_norm else None,
            self.config.head_dim,
        )

    def _load(self, name: str) -> Tensor:
        tensor = self._source.tensor(name).to(self._device)
        if tensor.dtype == E4M3:
            tensor = tensor.float() * self._stored_scale(name, tensor)[:, None]
        return tensor.to(self._dtype)

    def _load_fp8(self, name: str) -> tuple[Tensor, Tensor]:
        """The matrix in e4m3 and the scales [rows] of its rows: as stored, or quantised here."""
        tensor = self._source.tensor(name).to(self._device)
        if tensor.dtype == E4M3:
            return tensor, self._stored_scale(name, tensor)
        quantized, scale = quantize_rows(tensor)
        return quantized, scale.view(-1)

    def _stored_scale(self, name: str, tensor: Tensor) -> Tensor:
        scale = self._source.scale(name)
        if scale is None or scale.numel() not in (1, tensor.shape[0]):
            found = "none" if scale is None else str(scale.numel())
            raise WeightError(
                f"{name} is fp8 and needs one scale, or one per row ({tensor.shape[0]}); it has {found}"
            )
        return scale.to(self._device).expand(tensor.shape[0])


def _places(groups: tuple[KVGroup, ...]) -> dict[int, tuple[int, int]]:
    """Layer → (group, place in the group's pages)."""
    return {
        layer: (number, index)
        for number, group in enumerate(groups)
        for index, layer in enumerate(group.layer_ids)
        if layer >= 0
    }
