"""Which parts of a model are held in fp8, and what a checkpoint's `quantization_config` says about its weights.

Place in the path: settings and config.json → here → `loader`, `build`. Imports no torch. Knows no tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.models.model_config import ModelConfigError, Quantization


@dataclass(frozen=True, slots=True)
class Fp8Parts:
    """What is e4m3 on the device. The rest has the compute dtype."""

    weights: bool = False
    """Projections of the layers, one scale per output channel."""
    head: bool = False
    kv_cache: bool = False


def stored_quantization(config: Mapping[str, Any]) -> Quantization | None:
    """How the projections of a decoded config.json are stored; None: plainly."""
    stated = config.get("quantization_config") or config.get("compression_config")
    if not stated:
        return None
    method = stated.get("quant_method")
    if method == "compressed-tensors":
        _check_groups(stated)
    elif method not in ("fp8", "fbgemm_fp8"):
        raise ModelConfigError(
            f"config.json: quant_method {method!r} is not supported: fp8, fbgemm_fp8 and compressed-tensors in fp8 "
            "are; otherwise take the unquantised checkpoint and --quantization fp8"
        )
    if stated.get("weight_block_size"):
        raise ModelConfigError(
            "config.json: fp8 weights with a scale per block are not supported, those with a scale per channel or "
            "tensor are; or take the unquantised checkpoint and --quantization fp8"
        )
    return "fp8"


def _check_groups(stated: Mapping[str, Any]) -> None:
    for name, group in (stated.get("config_groups") or {}).items():
        weights = group.get("weights") or {}
        kind = weights.get("type"), weights.get("num_bits"), weights.get("strategy")
        if kind not in (("float", 8, "channel"), ("float", 8, "tensor")):
            raise ModelConfigError(
                f"config.json: {name} holds weights of type {kind[0]} with {kind[1]} bits and a scale per {kind[2]}; "
                "of compressed-tensors only fp8 (float, 8 bits) with a scale per channel or tensor is supported"
            )
