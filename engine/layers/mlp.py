"""The gated MLP: down(act(gate(x)) · up(x)), gate and up in one product, the norm in front of it included."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.layers.fp8_linear import Fp8Linear, Projection
from engine.layers.norm import RMSNorm
from engine.models.model_config import GatedAct


@dataclass(slots=True)
class MLP:
    gate_up: Projection
    down: Projection
    act: GatedAct

    def __call__(self, x: Tensor, norm: RMSNorm) -> Tensor:
        """The block's answer [T, H] for the residual stream x [T, H]."""
        if isinstance(self.gate_up, Fp8Linear) and isinstance(self.down, Fp8Linear):
            return self.down(self.gate_up.gated_rows(x, norm, self.act))
        return self.down(self.gate_up.gated(x, norm, self.act))

    def add_to(self, x: Tensor, norm: RMSNorm) -> Tensor:
        """x + the block's answer for it. The memory of x may be used for the sum."""
        if isinstance(self.gate_up, Fp8Linear) and isinstance(self.down, Fp8Linear):
            return self.down.add_to(x, self.gate_up.gated_rows(x, norm, self.act))
        return self.down.add_to(x, self.gate_up.gated(x, norm, self.act))
