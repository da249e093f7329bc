"""Family name → its decoder definition. A new family is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.layers.batch import CausalLM
from engine.models import gemma3, llama
from engine.models.build import Parts
from engine.models.model_config import Family, ModelConfig
from engine.models.weights import Shape


@dataclass(frozen=True, slots=True)
class Architecture:
    tensor_shapes: Callable[[ModelConfig], dict[str, Shape]]
    """What a checkpoint of the family must hold, by canonical name."""
    build: Callable[[Parts], CausalLM]


_LLAMA = Architecture(llama.tensor_shapes, llama.Llama)

ARCHITECTURES: dict[Family, Architecture] = {
    "llama": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": _LLAMA,
    "mistral": _LLAMA,
    "gemma3": Architecture(gemma3.tensor_shapes, gemma3.Gemma3),
}
