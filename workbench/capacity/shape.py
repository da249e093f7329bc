"""What the arithmetic needs to know of a decoder: its matrices, its vectors and its attention layers.

`families` makes it from a config.json, `gguf_source` from a GGUF file. Pure; knows no formats and no GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["linear", "kv", "expert", "router", "embedding", "head"]
"""kv: the projections to keys and values, which have fewer heads to divide among GPUs. expert: of a mixture."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """`count` equal matrices of `rows` outputs and `columns` inputs."""

    role: Role
    rows: int
    columns: int
    count: int = 1

    @property
    def elements(self) -> int:
        return self.rows * self.columns * self.count


@dataclass(frozen=True, slots=True)
class Attention:
    """The attention layers, as the KV cache sees them."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    windows: tuple[int | None, ...]
    """Per layer: the tokens it looks back over; None: all."""

    @property
    def kind(self) -> str:
        if self.num_kv_heads == self.num_heads:
            return "MHA"
        return "MQA" if self.num_kv_heads == 1 else "GQA"


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder-only model."""

    family: str
    attention: Attention
    matrices: tuple[Matrix, ...]
    vector_elements: int
    """Norms, biases and what else every GPU holds whole."""
    max_positions: int
    active_expert_share: float = 1.0
    """Share of the experts that one token passes through; 1 where there are none."""

    @property
    def num_parameters(self) -> int:
        return sum(matrix.elements for matrix in self.matrices) + self.vector_elements
