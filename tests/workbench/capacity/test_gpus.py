"""The table of GPUs."""

from __future__ import annotations

from workbench.capacity.gpus import GPUS, Gpu


def test_memory_is_in_units_of_1024() -> None:
    assert Gpu("g", 2.0).memory_bytes == 2 * 1024**3


def test_names_are_as_they_are_typed_and_figures_are_whole() -> None:
    for name, gpu in GPUS.items():
        assert name == gpu.name == name.lower()
        assert 16 < gpu.memory_gib < 512
        assert gpu.bandwidth_gb_s is not None
        assert 100 < gpu.bandwidth_gb_s < 20_000
