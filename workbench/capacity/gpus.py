"""GPUs by name: the memory a driver reports and the bandwidth its maker states. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Gpu:
    name: str
    memory_gib: float
    bandwidth_gb_s: float | None = None
    """10⁹ bytes a second; None: unknown, and nothing is said about speed."""

    @property
    def memory_bytes(self) -> float:
        return self.memory_gib * GIB


GPUS: Mapping[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        Gpu("a10", 22.0, 600),
        Gpu("a100-40gb", 39.4, 1555),
        Gpu("a100-80gb", 79.2, 2039),
        Gpu("b200", 178.0, 8000),
        Gpu("h100", 79.2, 3350),
        Gpu("h200", 139.8, 4800),
        Gpu("l4", 22.0, 300),
        Gpu("l40s", 44.5, 864),
        Gpu("rtx-4090", 23.6, 1008),
    )
}
