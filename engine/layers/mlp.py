"""The gated MLP: down(act(gate(x)) · up(x)), gate and up in one product, the norm in front of it included."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.layers.linear import Linear
from engine.layers.norm import RMSNorm
from engine.models.model_config import GatedAct


@dataclass(slots=True)
class MLP:
    gate_up: Linear
    down: Linear
    act: GatedAct

    def hidden(self, x: Tensor, norm: RMSNorm) -> Tensor:
        """What `down` takes, from the residual stream x [T, H]."""
        return self.gate_up.gated(x, norm, self.act)
