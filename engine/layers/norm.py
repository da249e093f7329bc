"""RMS normalisation as a layer: a weight and an epsilon around `kernels.rms_norm`."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from kernels.rms_norm import rms_norm


@dataclass(slots=True)
class RMSNorm:
    """`weight` is fp32 and final: Gemma's 1 + w has been folded by the loader."""

    weight: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps)[0]
