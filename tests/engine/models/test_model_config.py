"""KV groups: equal counts, one window each, every layer exactly once."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.contract import KVGroup
from engine.models.config_reader import from_hf
from engine.models.gguf_config import patterned_windows
from engine.models.model_config import ModelConfig, ModelConfigError, kv_groups
from tests.models import LLAMA_CONFIG


def _config(*windows: int | None) -> ModelConfig:
    config = from_hf(LLAMA_CONFIG | {"vocab_size": 8}, {})
    return dataclasses.replace(config, num_layers=len(windows), layer_windows=windows)


def test_one_kind_of_layer_is_one_group() -> None:
    assert kv_groups(_config(None, None, None)) == (KVGroup((0, 1, 2), None),)


def test_gemma3_270m_has_five_local_groups_and_a_global_one() -> None:
    groups = kv_groups(_config(*patterned_windows(18, 512, 6)))
    assert [group.window for group in groups] == [512] * 5 + [None]
    assert [len(group.layer_ids) for group in groups] == [3] * 6
    assert groups[-1].layer_ids == (5, 11, 17)


def test_a_group_that_cannot_be_filled_is_padded() -> None:
    groups = kv_groups(_config(*patterned_windows(26, 512, 6)))
    assert [group.layer_ids.count(-1) for group in groups] == [0, 0, 0, 0, 0, 2, 0]


@given(st.lists(st.sampled_from([None, 8, 16]), min_size=1, max_size=40))
def test_every_layer_is_in_one_group_of_its_window(windows: list[int | None]) -> None:
    groups = kv_groups(_config(*windows))
    assert len({len(group.layer_ids) for group in groups}) == 1
    placed = {layer: group.window for group in groups for layer in group.layer_ids if layer >= 0}
    assert placed == dict(enumerate(windows))
    assert sum(layer >= 0 for group in groups for layer in group.layer_ids) == len(windows)


def test_contradictions_are_refused() -> None:
    with pytest.raises(ModelConfigError, match="1 layer kinds for 2 layers"):
        dataclasses.replace(_config(None), num_layers=2)
