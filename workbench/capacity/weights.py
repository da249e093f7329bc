"""Bytes of a model's weights in a format, whole and per GPU. Pure; knows no KV cache.

Only what the format quantises shrinks: projections (and experts). Embedding, head, router, norms and biases stay at
the plain type, as quantised checkpoints keep them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from workbench.capacity.shape import Matrix, Role, Shape

_QUANTISED: tuple[Role, ...] = ("linear", "kv", "expert")


@dataclass(frozen=True, slots=True)
class Format:
    """How the quantised matrices are stored."""

    name: str
    bits: float
    plain_bytes: float = 2.0
    """Of a number that is not quantised."""
    channel_bytes: float = 0.0
    """Beside the weights, per output channel: its scale."""
    group_size: int = 0
    group_bytes: float = 0.0
    """Beside the weights, per group of `group_size` inputs: scale and zero point."""
    roles: tuple[Role, ...] = _QUANTISED

    def bytes_of(self, matrix: Matrix) -> float:
        if matrix.role not in self.roles:
            return matrix.elements * self.plain_bytes
        weights = matrix.elements * self.bits / 8
        channels = matrix.rows * matrix.count * self.channel_bytes
        groups = -(-matrix.columns // self.group_size) * matrix.rows * matrix.count if self.group_size else 0
        return weights + channels + groups * self.group_bytes


FORMATS: Mapping[str, Format] = {
    "fp32": Format("fp32", 32, plain_bytes=4.0),
    "bf16": Format("bf16", 16),
    "fp16": Format("fp16", 16),
    "fp8": Format("fp8", 8, channel_bytes=4.0),
    "int8": Format("int8", 8, channel_bytes=4.0),
    "int4": Format("int4", 4, group_size=128, group_bytes=2.5),
    "mxfp4": Format("mxfp4", 4, group_size=32, group_bytes=1.0, roles=("expert",)),
}
"""int4: groups of 128 with a 16-bit scale and a 4-bit zero point, as AWQ and GPTQ store them."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes by what becomes of them on several GPUs."""

    format: str
    by_role: Mapping[Role, float]
    vectors: float
    """Held whole by each."""

    @property
    def total(self) -> float:
        return sum(self.by_role.values()) + self.vectors

    def per_gpu(self, tensor_parallel: int, num_kv_heads: int) -> float:
        """Matrices are divided, those of keys and values among no more GPUs than there are KV heads."""
        kv = self.by_role.get("kv", 0.0)
        divided = sum(self.by_role.values()) - kv
        return divided / tensor_parallel + kv / min(tensor_parallel, num_kv_heads) + self.vectors

    def read_per_step(self, active_expert_share: float, rows: int) -> float:
        """Bytes of a step that decodes `rows` sequences: the embedding is looked up, experts that no row needs rest."""
        embedding = self.by_role.get("embedding", 0.0) if self.by_role.get("head") else 0.0
        experts = self.by_role.get("expert", 0.0)
        used = experts * (1 - (1 - active_expert_share) ** rows)
        return self.total - embedding - experts + used


def weigh(shape: Shape, format: Format) -> Weights:
    by_role: dict[Role, float] = defaultdict(float)
    for matrix in shape.matrices:
        by_role[matrix.role] += format.bytes_of(matrix)
    return Weights(format.name, dict(by_role), shape.vector_elements * format.plain_bytes)
