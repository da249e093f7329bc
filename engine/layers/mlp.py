"""The gated MLP: down(act(gate(x)) · up(x)), gate and up in one product."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.layers.linear import Linear
from engine.models.model_config import GatedAct
from kernels.gated_act import gated_act


@dataclass(slots=True)
class MLP:
    gate_up: Linear
    down: Linear
    act: GatedAct

    def __call__(self, x: Tensor) -> Tensor:
        return self.down(gated_act(self.gate_up(x), self.act))
