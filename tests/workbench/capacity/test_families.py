"""Every family's parameters are counted to the last one: against the model that `transformers` builds."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from tests.workbench.capacity.configs import OF_FAMILY, TINY
from workbench.capacity.config_source import shape_of
from workbench.capacity.families import FAMILIES

CASES = [(family, overrides) for family, many in OF_FAMILY.items() for overrides in many]


def test_every_family_is_counted() -> None:
    assert set(OF_FAMILY) == set(FAMILIES)


@pytest.mark.parametrize(
    ("family", "overrides"), CASES, ids=[f"{name}-{n}" for n, (name, _) in enumerate(CASES)]
)
def test_parameters_are_those_of_the_built_model(family: str, overrides: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of transformers, about its own defaults
        from transformers import AutoConfig, AutoModelForCausalLM

        config = AutoConfig.for_model(family, **(TINY | overrides))
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    counted = shape_of(TINY | config.to_dict() | {"model_type": family})
    assert counted.num_parameters == model.num_parameters()


def test_windows_are_those_of_the_built_model() -> None:
    from transformers import AutoConfig

    for family in ("gemma2", "gemma3_text", "gpt_oss", "qwen2"):
        overrides = OF_FAMILY[family][-1] | {"sliding_window": 32}
        kinds = AutoConfig.for_model(family, **(TINY | overrides)).layer_types
        bare = TINY | overrides | {"model_type": family}
        windows = shape_of(bare).attention.windows
        assert [w is not None for w in windows] == [kind == "sliding_attention" for kind in kinds], family
        assert set(windows) <= {None, 32}
