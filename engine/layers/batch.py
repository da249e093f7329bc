"""The inputs of one forward pass, and what every model offers. Made by the runner, read by the layers.

T = tokens of the step, R = scheduled rows, S = sampled rows, H = hidden width, V = vocabulary,
B = widest block table. Knows nothing of requests: rows have no names here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from engine.core.contract import KVGroup
from engine.models.model_config import ModelConfig
from kernels.attention_plan import AttentionPlan
from kernels.host_plan import HostPlan
from kernels.invariant_attention import InvariantPlan


@dataclass(frozen=True, slots=True)
class GroupBatch:
    """Where the layers of one KV group find and put keys and values this step."""

    block_table: Tensor
    """[R, B] int32: page of each 16-token span of a row, from position 0. Entries behind the window or
    past the row's end are never read and may hold anything (-1 in the contract)."""
    slots: Tensor
    """[T] int64: page * block_size + offset that a token's key and value go to; -1: written nowhere."""
    plan: AttentionPlan | HostPlan | InvariantPlan | None = None
    """The attention kernel's work list for this step and the group's window. With a GPU's, the lines of
    `block_table` are those that its items name: a table of all requests need not be gathered."""
    runs: Tensor | None = None
    """[T, 2 · kv heads] int64, CPU only: `kernels.host_plan.write_runs` of `slots`, if none is -1."""


@dataclass(frozen=True, slots=True)
class ForwardBatch:
    """One step's tokens, row after row. A row's tokens are consecutive positions ending at its length."""

    token_ids: Tensor
    """[T] int64."""
    positions: Tensor
    """[T] int64: position of each token in its own sequence."""
    query_start: Tensor
    """[R + 1] int32: tokens of row r are query_start[r] … query_start[r + 1] - 1."""
    seq_lens: Tensor
    """[R] int32: length of a row including this step's tokens; its last token is at seq_lens[r] - 1."""
    sampled: Tensor
    """[S] int64: indices into T whose next token is sampled."""
    groups: tuple[GroupBatch, ...]
    """One per KV group, in the order of `CausalLM.kv_groups`."""


class CausalLM(Protocol):
    """A decoder with its weights on one device. Stateless: the same batch and pool give the same answer."""

    @property
    def config(self) -> ModelConfig: ...

    @property
    def kv_groups(self) -> tuple[KVGroup, ...]:
        """Layers by block table; all of one length. A layer id of -1 pads a group: its share of a page
        stays unused."""
        ...

    def forward(self, batch: ForwardBatch, kv_pool: Tensor) -> Tensor:
        """Hidden states [T, H] after the final norm. Writes the step's keys and values to `kv_pool`
        [num_blocks, layers_per_group, 2, kv_heads, block_size, head_dim]."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """[S, H] rows of `forward`'s result → [S, V] fp32, soft-capped where the family caps."""
        ...
