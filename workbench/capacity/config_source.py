"""A decoded config.json → `Shape`, by the rows of `families`; and the format that its weights are stored in.

Pure; knows no files. What it cannot count rightly it refuses, with what to do instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.capacity.errors import PlanError
from workbench.capacity.families import FAMILIES, Family
from workbench.capacity.shape import Attention, Matrix, Shape
from workbench.capacity.weights import FORMATS, Format

_RECURRENT = ("ssm_state_size", "mamba_d_state", "state_size", "linear_num_value_heads", "lru_width")
_PLAIN = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def shape_of(config: Mapping[str, Any], as_family: str | None = None) -> Shape:
    """`as_family`: read it by this row, whatever it calls itself."""
    text = config.get("text_config") or config
    name = str(as_family or text.get("model_type") or config.get("model_type"))
    if name == "gemma3":
        name = "gemma3_text"
    _refuse(text, name)
    if name not in FAMILIES:
        raise PlanError(
            f"model_type {name!r} is not known; known are {', '.join(sorted(FAMILIES))}. If its layers are like one of "
            "theirs, name it: --as llama"
        )
    family = FAMILIES[name]
    given = {key: value for key, value in text.items() if value is not None}
    return _Reader(family, {**family.defaults, **given}).shape(name)


def stored_format(config: Mapping[str, Any]) -> Format | None:
    """What `quantization_config` says the projections are stored in; None: plainly."""
    stated = config.get("quantization_config") or config.get("compression_config")
    if not stated:
        return None
    method = stated.get("quant_method")
    if method in ("fp8", "fbgemm_fp8"):
        block = stated.get("weight_block_size")
        if not block:
            return FORMATS["fp8"]
        return Format("fp8", 8, group_size=int(block[1]), group_bytes=4.0 / int(block[0]))
    if method == "mxfp4":
        return FORMATS["mxfp4"]
    if method in ("awq", "gptq"):
        return _grouped(stated.get("bits", 4), stated.get("group_size", 128))
    if method == "compressed-tensors":
        groups = list((stated.get("config_groups") or {}).values())
        weights = (groups[0].get("weights") or {}) if groups else {}
        if weights.get("type") == "float" and weights.get("num_bits") == 8:
            return FORMATS["fp8"]
        if weights.get("num_bits") in (4, 8):
            return _grouped(weights["num_bits"], weights.get("group_size") or -1)
    raise PlanError(
        f"config.json: weights stored by {method!r} are not known here; say what they come to: --weights int4, int8, "
        "fp8 or bf16"
    )


def _grouped(bits: int, group_size: int) -> Format:
    """A scale of 16 bits and a zero point as wide as a weight per group; -1: one group a channel."""
    beside = 2.0 + bits / 8
    if group_size <= 0:
        return Format(f"int{bits}", bits, channel_bytes=beside)
    return Format(f"int{bits}", bits, group_size=group_size, group_bytes=beside)


def plain_type(config: Mapping[str, Any]) -> str:
    """The type of the numbers that are not quantised, as the checkpoint states it."""
    text = config.get("text_config") or config
    stated = text.get("dtype") or text.get("torch_dtype") or config.get("dtype") or config.get("torch_dtype")
    return _PLAIN.get(str(stated), "bf16")


def _refuse(text: Mapping[str, Any], name: str) -> None:
    if text.get("kv_lora_rank"):
        raise PlanError(
            f"model_type {name!r} has multi-head latent attention (kv_lora_rank): its cache is not 2 · layers · KV "
            "heads · head size, and Tollway's engine does not serve it; measure its server with `tollway bench`"
        )
    if text.get("is_encoder_decoder"):
        raise PlanError(f"model_type {name!r} is an encoder with a decoder; only decoders are planned")
    recurrent = [key for key in _RECURRENT if text.get(key)]
    if recurrent:
        raise PlanError(
            f"model_type {name!r} has recurrent layers ({recurrent[0]}), whose state is no KV cache; measure its "
            "server with `tollway bench`"
        )


class _Reader:
    """One config.json with its family's defaults."""

    def __init__(self, family: Family, values: Mapping[str, Any]) -> None:
        self._family, self._values = family, values
        self._layers = self._integer("num_hidden_layers")
        self._hidden = self._integer("hidden_size")
        self._heads = self._integer("num_attention_heads")
        self._kv_heads = int(values.get("num_key_value_heads") or self._heads)
        self._head_dim = int(values.get("head_dim") or self._hidden // self._heads)
        if self._heads % self._kv_heads:
            raise PlanError(f"config.json: {self._heads} heads cannot share {self._kv_heads} KV heads")

    def shape(self, name: str) -> Shape:
        sparse = self._sparse_layers()
        matrices = [
            *self._attention(),
            *self._dense(self._layers - sparse),
            *self._mixture(sparse),
            *self._ends(),
        ]
        experts = self._experts() if sparse else 0
        return Shape(
            family=name,
            attention=Attention(self._heads, self._kv_heads, self._head_dim, self._windows()),
            matrices=tuple(matrix for matrix in matrices if matrix.count),
            vector_elements=self._vectors(sparse),
            max_positions=int(self._values.get("max_position_embeddings") or 2048),
            active_expert_share=int(self._values.get("num_experts_per_tok") or 1) / experts
            if experts
            else 1.0,
        )

    def _integer(self, key: str) -> int:
        value = self._values.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            raise PlanError(f"config.json: {key} must be a positive integer, not {value!r}")
        return value

    def _experts(self) -> int:
        return self._integer("num_experts" if "num_experts" in self._values else "num_local_experts")

    def _flag(self, which: str | bool) -> bool:
        return bool(self._values.get(which)) if isinstance(which, str) else which

    def _attention(self) -> list[Matrix]:
        query, value = self._heads * self._head_dim, self._kv_heads * self._head_dim
        return [
            Matrix("linear", query, self._hidden, self._layers),
            Matrix("kv", value, self._hidden, 2 * self._layers),
            Matrix("linear", self._hidden, query, self._layers),
        ]

    def _dense(self, layers: int) -> list[Matrix]:
        if not layers:
            return []
        ffn = self._integer("intermediate_size")
        inward = 2 if self._family.gated else 1
        return [
            Matrix("linear", ffn, self._hidden, inward * layers),
            Matrix("linear", self._hidden, ffn, layers),
        ]

    def _mixture(self, layers: int) -> list[Matrix]:
        family = self._family
        if not layers:
            return []
        experts, size = self._experts(), self._integer(family.expert_size)
        matrices = [
            Matrix("expert", size, self._hidden, 2 * experts * layers),
            Matrix("expert", self._hidden, size, experts * layers),
            Matrix("router", experts, self._hidden, layers),
        ]
        if family.shared_expert is not None:
            shared = self._integer(family.shared_expert)
            matrices += [
                Matrix("linear", shared, self._hidden, 2 * layers),
                Matrix("linear", self._hidden, shared, layers),
                Matrix("router", 1, self._hidden, layers),
            ]
        return matrices

    def _ends(self) -> list[Matrix]:
        vocab = self._integer("vocab_size")
        tied = bool(self._values.get("tie_word_embeddings"))
        ends = [Matrix("embedding", vocab, self._hidden)]
        return ends if tied else [*ends, Matrix("head", vocab, self._hidden)]

    def _sparse_layers(self) -> int:
        if not self._family.experts:
            return 0
        step = int(self._values.get("decoder_sparse_step") or 1)
        dense = set(self._values.get("mlp_only_layers") or ())
        return sum(layer not in dense and (layer + 1) % step == 0 for layer in range(self._layers))

    def _vectors(self, sparse: int) -> int:
        family, hidden = self._family, self._hidden
        query, value = self._heads * self._head_dim, self._kv_heads * self._head_dim
        norms = (family.norms_per_layer * self._layers + 1) * hidden * (2 if family.norm_bias else 1)
        per_layer = {"no": 0, "head": 2 * self._head_dim, "all heads": query + value}[family.qk_norm]
        per_layer += (query + 2 * value) * self._flag(family.qkv_bias) + hidden * self._flag(family.out_bias)
        per_layer += self._heads * family.sinks
        dense = self._layers - sparse
        biases = 0
        if dense and self._flag(family.mlp_bias):
            biases = dense * (self._integer("intermediate_size") * (2 if family.gated else 1) + hidden)
        if sparse and family.expert_bias:
            experts, size = self._experts(), self._integer(family.expert_size)
            biases += sparse * experts * (2 * size + hidden + 1)
        return norms + per_layer * self._layers + biases

    def _windows(self) -> tuple[int | None, ...]:
        layers, values = range(self._layers), self._values
        window, kinds = values.get("sliding_window"), values.get("layer_types")
        rule = self._family.windows
        if rule == "qwen" and not values.get("use_sliding_window"):
            window = None
        if window is None or rule == "none":
            return (None,) * self._layers
        if kinds is not None:
            return tuple(self._typed(kind, int(window)) for kind in kinds)
        if rule == "qwen":
            first = int(values.get("max_window_layers") or 0)
            return tuple(window if layer >= first else None for layer in layers)
        if rule == "alternate":
            return tuple(window if layer % 2 == 0 else None for layer in layers)
        if rule == "pattern":
            pattern = int(values["sliding_window_pattern"])
            return tuple(None if (layer + 1) % pattern == 0 else window for layer in layers)
        return (int(window),) * self._layers

    def _typed(self, kind: str, window: int) -> int | None:
        if kind not in ("sliding_attention", "full_attention"):
            raise PlanError(
                f"config.json: layers of type {kind!r} are not known; full and sliding attention are"
            )
        return window if kind == "sliding_attention" else None
