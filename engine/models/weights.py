"""Where a model's tensors come from: safetensors, GGUF, or a seeded generator.

All sources speak the same canonical names (Hugging Face's, without prefixes of multimodal wrappers) and
the same conventions: matrices are (out, in), norm weights are final (Gemma's 1 + w folded), rotary pairs
are dimension i with i + D/2. Nothing is read before it is asked for. Used by `loader`; knows no layers.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.gguf import GGUFFile, GGUFTensor
from engine.layers.gguf_quants import dequantize
from engine.models.model_config import ModelConfig, ModelConfigError

Shape = tuple[int, ...]


class WeightError(ModelConfigError):
    """The checkpoint's tensors are not those that its configuration asks for."""


class WeightSource(Protocol):
    def shapes(self) -> dict[str, Shape]:
        """Canonical name → shape of every tensor that belongs to the decoder."""
        ...

    def tensor(self, name: str) -> Tensor:
        """The tensor on the CPU, in the checkpoint's dtype (fp32 when it was quantised)."""
        ...

    def scale(self, name: str) -> Tensor | None:
        """[rows, 1] or [1] that an fp8 matrix is to be multiplied by."""
        ...

    def kv_scale(self, layer: int) -> Tensor | None:
        """[2] that a layer's keys and values in an fp8 cache are to be multiplied by, if the checkpoint knows."""
        ...

    def raw(self, name: str) -> GGUFTensor | None:
        """The quantised matrix itself, where the source is GGUF and the row order is canonical."""
        ...


class SafetensorsSource:
    """One model.safetensors, or shards with an index; memory-mapped."""

    def __init__(self, directory: Path, config: ModelConfig) -> None:
        self._folds_one = config.family == "gemma3"
        self._tied = config.tie_embeddings
        self._files: dict[str, tuple[str, str]] = {}
        """canonical name → (file, name in it)"""
        self._scales: dict[str, tuple[str, str]] = {}
        """The same for the scale of an fp8 matrix, or of the keys (k) or values (v) of a layer, by its name."""
        self._open: dict[str, _Safetensors] = {}
        for path in _shard_paths(directory):
            try:
                self._open[path.name] = _Safetensors(path)
            except SafetensorError as error:
                raise WeightError(f"{path} is not a safetensors file: {error}") from error
            for stored in self._open[path.name].names():
                name = self._canonical(stored)
                scaled = None if name is None else _scaled_by(name)
                if scaled is not None:
                    self._scales[scaled] = (path.name, stored)
                elif name is not None:
                    self._files[name] = (path.name, stored)

    def shapes(self) -> dict[str, Shape]:
        return {name: self._open[file].shape(stored) for name, (file, stored) in self._files.items()}

    def tensor(self, name: str) -> Tensor:
        file, stored = self._files[name]
        tensor = self._open[file].tensor(stored)
        return tensor.float() + 1.0 if self._folds_one and name.endswith("norm.weight") else tensor

    def scale(self, name: str) -> Tensor | None:
        if name not in self._scales:
            return None
        file, stored = self._scales[name]
        return self._open[file].tensor(stored).float().view(-1)

    def kv_scale(self, layer: int) -> Tensor | None:
        names = [f"model.layers.{layer}.self_attn.{which}" for which in ("k", "v")]
        scales = [self.scale(name) for name in names]
        return (
            torch.cat([each for each in scales if each is not None])
            if all(each is not None and each.numel() == 1 for each in scales)
            else None
        )

    def raw(self, name: str) -> GGUFTensor | None:
        return None

    def _canonical(self, stored: str) -> str | None:
        """None for what is no part of the text decoder."""
        name = re.sub(r"^(model\.)?language_model\.", "model.", stored).replace("model.model.", "model.", 1)
        name = name.replace("model.lm_head.", "lm_head.")
        if re.match(r"^(model\.)?(vision_tower|multi_modal_projector)\.", name):
            return None
        # Activations are scaled by what they are, not by what a calibration saw.
        if name.endswith((".input_scale", ".input_scale_ub", ".q_scale")):
            return None
        if name.endswith("rotary_emb.inv_freq") or (self._tied and name == "lm_head.weight"):
            return None
        return name


class _Safetensors:
    """One mapped file; the library's handle has no types."""

    def __init__(self, path: Path) -> None:
        self._handle: Any = safe_open(path, framework="pt")

    def names(self) -> list[str]:
        return list(self._handle.keys())

    def shape(self, name: str) -> Shape:
        return tuple(self._handle.get_slice(name).get_shape())

    def tensor(self, name: str) -> Tensor:
        tensor: Tensor = self._handle.get_tensor(name)
        return tensor


class GGUFSource:
    """A GGUF file: other names, and llama's query and key rows in another order."""

    def __init__(self, file: GGUFFile, config: ModelConfig) -> None:
        self._file, self._config = file, config
        table = _GGUF_LAYER_NAMES | _GGUF_FAMILY_NAMES[config.family]
        self._stored: dict[str, str] = {}
        for stored in file.tensors:
            name = _from_gguf_name(stored, table)
            if name is not None:
                self._stored[name] = stored

    def shapes(self) -> dict[str, Shape]:
        return {name: self._file.tensors[stored].shape for name, stored in self._stored.items()}

    def tensor(self, name: str) -> Tensor:
        tensor = dequantize(self._file.tensors[self._stored[name]])
        if self._config.family == "llama" and (".q_proj." in name or ".k_proj." in name):
            heads = self._config.num_heads if ".q_proj." in name else self._config.num_kv_heads
            return _halves_from_pairs(tensor, heads)
        return tensor

    def scale(self, name: str) -> Tensor | None:
        return None

    def kv_scale(self, layer: int) -> Tensor | None:
        return None

    def raw(self, name: str) -> GGUFTensor | None:
        return self._file.tensors[self._stored[name]]


class DummySource:
    """Seeded random tensors of the asked-for shapes: the same model from the same seed on the same kind of
    device. Drawn on the device: eight billion numbers take a GPU moments and a CPU minutes."""

    def __init__(
        self, shapes: Mapping[str, Shape], seed: int = 0, device: torch.device | str = "cpu"
    ) -> None:
        self._shapes, self._seed, self._device = dict(shapes), seed, device

    def shapes(self) -> dict[str, Shape]:
        return self._shapes

    def tensor(self, name: str) -> Tensor:
        shape = self._shapes[name]
        digest = hashlib.sha256(f"{self._seed} {name}".encode()).digest()
        seed = int.from_bytes(digest[:8], "little", signed=True)
        generator = torch.Generator(self._device).manual_seed(seed)
        drawn = torch.randn(shape, generator=generator, device=self._device)
        if name.endswith("norm.weight"):
            return 1.0 + 0.1 * drawn
        return drawn * math.sqrt(1 / shape[-1])

    def scale(self, name: str) -> Tensor | None:
        return None

    def kv_scale(self, layer: int) -> Tensor | None:
        return None

    def raw(self, name: str) -> GGUFTensor | None:
        return None


def check_shapes(expected: Mapping[str, Shape], found: Mapping[str, Shape]) -> None:
    """Raises one WeightError that names every missing, unexpected and misshapen tensor (up to a limit)."""
    problems = [f"missing: {name}" for name in expected if name not in found]
    problems += [f"unexpected: {name}" for name in found if name not in expected]
    problems += [
        f"misshapen: {name} is {list(found[name])}, the configuration asks for {list(shape)}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    if problems:
        shown = problems[:_MAX_PROBLEMS]
        more = [f"and {len(problems) - len(shown)} more"] if len(problems) > len(shown) else []
        raise WeightError("the checkpoint does not fit its configuration: " + "; ".join(shown + more))


_MAX_PROBLEMS = 12
_GGUF_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_GGUF_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LLAMA_GGUF_NAMES = {"ffn_norm": "post_attention_layernorm"}
_GGUF_FAMILY_NAMES = {
    "llama": _LLAMA_GGUF_NAMES,
    "qwen2": _LLAMA_GGUF_NAMES,
    "qwen3": _LLAMA_GGUF_NAMES,
    "gemma3": {
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    },
}
_GGUF_NOT_WEIGHTS = ("rope_freqs.weight",)


def _scaled_by(name: str) -> str | None:
    """What the tensor `name` is the scale of: a matrix, or a layer's keys or values; None: it is no scale."""
    if name.endswith(".weight_scale"):
        return name.removesuffix("_scale")
    found = re.fullmatch(r"(.+\.self_attn)\.(?:attn\.|[kv]_proj\.)?([kv])_scale", name)
    found = found or re.fullmatch(r"(.+\.self_attn)\.([kv])_proj\.output_scale", name)
    return f"{found[1]}.{found[2]}" if found else None


def _from_gguf_name(stored: str, layer_names: Mapping[str, str]) -> str | None:
    if stored in _GGUF_NOT_WEIGHTS:
        return None
    stem, _, kind = stored.rpartition(".")
    layer = re.fullmatch(r"blk\.(\d+)\.(\w+)", stem)
    if layer and layer[2] in layer_names:
        return f"model.layers.{layer[1]}.{layer_names[layer[2]]}.{kind}"
    return f"{_GGUF_NAMES[stem]}.{kind}" if stem in _GGUF_NAMES else stored


def _halves_from_pairs(tensor: Tensor, heads: int) -> Tensor:
    """Rows of a head that rotate together: (0, 1), (2, 3) … in the file, (0, D/2), (1, D/2 + 1) … here."""
    pairs = tensor.view(heads, -1, 2, *tensor.shape[1:])
    return pairs.transpose(1, 2).reshape(tensor.shape)


def _shard_paths(directory: Path) -> list[Path]:
    index = directory / "model.safetensors.index.json"
    if index.exists():
        weight_map = json.loads(index.read_text(encoding="utf-8")).get("weight_map", {})
        paths = [directory / name for name in sorted(set(weight_map.values()))]
    else:
        paths = [directory / "model.safetensors"]
    missing = [str(path) for path in paths if not path.exists()]
    if missing or not paths:
        raise WeightError(f"weights are missing: {', '.join(missing) or index}")
    return paths
