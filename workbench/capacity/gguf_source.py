"""A GGUF file → `Shape` and the bytes of its weights, which are those of its tensors: nothing is estimated.

Reads the container with the engine's own reader, so any architecture with ordinary attention can be planned. Knows no
GPUs.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.capacity.errors import PlanError
from workbench.capacity.shape import Attention, Matrix, Role, Shape
from workbench.capacity.weights import Weights

if TYPE_CHECKING:
    from engine.gguf import GGUFFile

_PATTERNS = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2}
"""Every how many-th layer sees everything, where the file does not say."""


def read_gguf(path: Path) -> tuple[Shape, Weights]:
    try:
        from engine.gguf import GGUFError, GGUFFile
    except ImportError as error:
        raise PlanError(f"a GGUF file is read with {error.name}: pip install 'tollway[bench]'") from error
    try:
        file = GGUFFile(path)
        return _shape(file), _weights(file)
    except GGUFError as error:
        raise PlanError(
            f"{error}; or plan from the model's config.json with --weights int4 (int8, fp8)"
        ) from error


def _shape(file: GGUFFile) -> Shape:
    metadata = file.metadata
    name = metadata.str_of("general.architecture")
    for key, what in (
        ("attention.kv_lora_rank", "multi-head latent attention"),
        ("ssm.state_size", "recurrent layers"),
    ):
        if f"{name}.{key}" in metadata:
            raise PlanError(
                f"{file.path}: {name} has {what}, whose cache is not planned; measure its server instead"
            )
    layers, heads = metadata.int_of(f"{name}.block_count"), metadata.int_of(f"{name}.attention.head_count")
    hidden = metadata.int_of(f"{name}.embedding_length")
    kv_heads = metadata.int_of(f"{name}.attention.head_count_kv", heads)
    experts = metadata.int_of(f"{name}.expert_count", 0)
    used = metadata.int_of(f"{name}.expert_used_count", 1)
    matrices = tuple(
        Matrix(
            _role(tensor.name),
            tensor.shape[-2],
            tensor.shape[-1],
            tensor.shape[0] if len(tensor.shape) == 3 else 1,
        )
        for tensor in file.tensors.values()
        if len(tensor.shape) > 1
    )
    return Shape(
        family=name,
        attention=Attention(
            heads,
            kv_heads,
            metadata.int_of(f"{name}.attention.key_length", hidden // heads),
            _windows(file, name, layers),
        ),
        matrices=matrices,
        vector_elements=sum(t.shape[0] for t in file.tensors.values() if len(t.shape) == 1),
        max_positions=metadata.int_of(f"{name}.context_length"),
        active_expert_share=used / experts if experts else 1.0,
    )


def _windows(file: GGUFFile, name: str, layers: int) -> tuple[int | None, ...]:
    window = file.metadata.int_of(f"{name}.attention.sliding_window", 0)
    if not window:
        return (None,) * layers
    pattern = file.metadata.int_of(f"{name}.attention.sliding_window_pattern", _PATTERNS.get(name, 0))
    return tuple(None if pattern and (layer + 1) % pattern == 0 else window for layer in range(layers))


def _weights(file: GGUFFile) -> Weights:
    by_role: dict[Role, float] = defaultdict(float)
    vectors = 0
    for tensor in file.tensors.values():
        if len(tensor.shape) == 1:
            vectors += tensor.data.nbytes
        else:
            by_role[_role(tensor.name)] += tensor.data.nbytes
    return Weights("gguf", dict(by_role), vectors)


def _role(name: str) -> Role:
    if name.startswith("token_embd."):
        return "embedding"
    if name.startswith("output."):
        return "head"
    if "_exps." in name:
        return "expert"
    if "ffn_gate_inp" in name:
        return "router"
    return "kv" if ".attn_k." in name or ".attn_v." in name else "linear"
