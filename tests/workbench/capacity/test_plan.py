"""The plan: figures that can be had by hand, and refusals that say what would fit."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.workbench.capacity.configs import LLAMA3_8B
from workbench.capacity.config_source import shape_of
from workbench.capacity.errors import PlanError
from workbench.capacity.gpus import GIB, GPUS, Gpu
from workbench.capacity.measured import Measured, Slo
from workbench.capacity.plan import Wishes, make_plan, replicas_for
from workbench.capacity.source import Model
from workbench.capacity.weights import FORMATS, weigh

WEIGHTS = 2 * 8_030_261_248


def _model(weights: str = "bf16", **overrides: Any) -> Model:
    shape = shape_of(LLAMA3_8B | overrides)
    return Model("llama", shape, weigh(shape, FORMATS[weights]), None)


def _wishes(**wishes: Any) -> Wishes:
    return Wishes(gpu=GPUS["h100"], **wishes)


def test_sequences_that_fit() -> None:
    fit = make_plan(_model(), Wishes(gpu=Gpu("g", 40.0))).fit
    room = 40 * GIB * 0.9 - WEIGHTS - GIB
    assert (fit.bytes_per_token, fit.bytes_per_sequence) == (131_072, 2**29)
    assert fit.kv_room_per_gpu == pytest.approx(room)
    assert fit.sequences == int(room / 2**29) == 40


def test_140_a_second_at_35_a_replica_are_4_and_1_gpus() -> None:
    replicas = make_plan(_model(), _wishes(target_qps=140, qps_per_replica=35)).replicas
    assert replicas is not None
    assert (replicas.needed, replicas.spare, replicas.gpus_needed, replicas.gpus_spare) == (4, 1, 4, 1)
    two = make_plan(_model(), _wishes(target_qps=140, qps_per_replica=35, tensor_parallel=2)).replicas
    assert two is not None
    assert (two.gpus_needed, two.gpus_spare) == (8, 2)


@pytest.mark.parametrize(
    ("target", "rate", "headroom", "needed"),
    [
        (140, 35, 0, 4),
        (141, 35, 0, 5),
        (140, 35, 0.2, 5),
        (0.3, 0.1, 0, 3),
        (1, 35, 0, 1),
        (7, 10, 0.3, 1),
        (2.1, 0.3, 0, 7),
    ],
)
def test_replicas_for_a_rate(target: float, rate: float, headroom: float, needed: int) -> None:
    assert replicas_for(target, rate, headroom) == needed


def test_fp8_kv_and_weights_make_room() -> None:
    plain = make_plan(_model(), _wishes()).fit
    small = make_plan(_model("fp8"), _wishes(kv_type="fp8")).fit
    assert small.bytes_per_sequence == plain.bytes_per_sequence / 2
    assert small.sequences > 2 * plain.sequences


def test_the_fewest_gpus_that_hold_a_sequence() -> None:
    large = {
        "num_hidden_layers": 80,
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_attention_heads": 64,
    }
    plan = make_plan(_model(**large), _wishes())
    assert plan.fit.tensor_parallel == 2, "70 billion: 131 GiB, and two cards hold 142"
    assert plan.fit.sequences == 7
    assert any("vllm or sglang" in note for note in plan.notes)
    with pytest.raises(
        PlanError, match=r"no sequence of 4,096 tokens fits: on each of 1 x h100 .* fits on 2: --tensor"
    ):
        make_plan(_model(**large), _wishes(tensor_parallel=1))
    with pytest.raises(PlanError, match="take a larger --gpu, --weights fp8"):
        make_plan(_model(**large), Wishes(gpu=Gpu("small", 4.0)))


def test_gpus_that_heads_cannot_be_divided_among() -> None:
    with pytest.raises(PlanError, match="cannot be divided among 3 GPUs; 1, 2, 4, 8, 16 are possible"):
        make_plan(_model(), _wishes(tensor_parallel=3))
    notes = make_plan(_model(), _wishes(tensor_parallel=16)).notes
    assert "16 GPUs repeat the 8 KV heads" in notes


def test_windows_count_and_are_said() -> None:
    windowed = make_plan(_model(model_type="mistral", sliding_window=1024), _wishes())
    # 1,023 tokens before the newest and two steps in flight: 65 pages, and one half behind.
    assert windowed.fit.bytes_per_sequence == 66 * 16 * 131_072
    assert windowed.notes[0].startswith("32 of 32 layers have a window: 3.9x")


def test_tpot_bounds_the_sequences_by_bandwidth() -> None:
    gpu = Gpu("g", 80.0, 1000)
    embedding = 2 * 128256 * 4096
    plan = make_plan(_model(), Wishes(gpu=gpu, slo=Slo(tpot_ms=30), target_qps=10, output_tokens=100))
    rows = int((30e6 * 1000 - (WEIGHTS - embedding)) / 2**29)
    assert plan.fit.sequences_within_tpot == rows == 27
    floor_ms = (WEIGHTS - embedding + rows * 2**29) / 1e9
    assert plan.fit.tpot_floor_ms == pytest.approx(floor_ms)
    assert plan.replicas is not None
    assert plan.replicas.source == "bandwidth"
    assert plan.replicas.qps_per_replica == pytest.approx(rows / (100 * floor_ms / 1e3))
    slow = make_plan(_model(), Wishes(gpu=gpu, slo=Slo(tpot_ms=5), target_qps=10))
    assert (slow.fit.sequences_within_tpot, slow.replicas) == (0, None)
    assert any("longer than --slo-tpot-ms" in note for note in slow.notes)


def test_a_measured_rate_wins_over_the_bound_and_a_given_one_over_both() -> None:
    wishes = _wishes(target_qps=140, slo=Slo(ttft_ms=800))
    measured = Measured(35, 0.96, is_limit=False)
    plan = make_plan(_model(), wishes, measured)
    assert plan.replicas is not None
    assert (plan.replicas.needed, plan.replicas.source) == (4, "benchmark")
    assert any("can take more" in note for note in plan.notes)
    given = make_plan(_model(), dataclasses.replace(wishes, qps_per_replica=70), measured).replicas
    assert given is not None
    assert (given.needed, given.source) == (2, "given")


def test_without_bandwidth_a_rate_must_be_given() -> None:
    plan = make_plan(_model(), Wishes(gpu=Gpu("g", 80.0), target_qps=10, slo=Slo(ttft_ms=800)))
    assert plan.replicas is None
    assert any(note.startswith("give --qps-per-replica or --benchmark") for note in plan.notes)
    assert any("TTFT objective" in note for note in plan.notes)


def test_contexts_that_cannot_be() -> None:
    with pytest.raises(PlanError, match="more than the 8,192 positions"):
        make_plan(_model(), _wishes(context_tokens=8193))
    with pytest.raises(PlanError, match="leave no room for a prompt"):
        make_plan(_model(), _wishes(context_tokens=256, output_tokens=256))
