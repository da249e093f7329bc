"""What a plan shows."""

from __future__ import annotations

import io
import json

from rich.console import Console

from tests.workbench.capacity.configs import LLAMA3_8B
from workbench.capacity.config_source import shape_of
from workbench.capacity.gpus import GPUS
from workbench.capacity.measured import Slo
from workbench.capacity.plan import Plan, Wishes, make_plan
from workbench.capacity.report import as_json, as_table
from workbench.capacity.source import Model
from workbench.capacity.weights import FORMATS, weigh


def _plan() -> Plan:
    shape = shape_of(LLAMA3_8B)
    model = Model("Llama-3-8B", shape, weigh(shape, FORMATS["bf16"]), 16_060_522_496)
    wishes = Wishes(gpu=GPUS["h100"], target_qps=140, qps_per_replica=35, headroom=0.0, slo=Slo(tpot_ms=20))
    return make_plan(model, wishes)


def test_json_has_bytes_and_counts() -> None:
    found = json.loads(json.dumps(as_json(_plan())))
    assert found["format"] == "tollway-plan/1"
    assert found["model"]["parameters"] == 8_030_261_248
    assert found["kv"] == {
        "type": "bf16", "bytes_per_token": 131_072, "context_tokens": 4096, "bytes_per_sequence": 2**29,
    }  # fmt: skip
    assert found["replicas"]["gpus_needed"] == 4
    assert found["replicas"]["gpus"] == 5


def test_table_says_the_same() -> None:
    out = io.StringIO()
    Console(file=out, width=160).print(as_table(_plan()))
    text = out.getvalue()
    for part in ("8.03 billion", "GQA: 32 heads, 8 KV heads", "128 KiB as bf16", "0.5 GiB at 4,096 tokens"):
        assert part in text
    for part in (
        "14.96 GiB as bf16, 14.96 GiB on disk",
        "4 + 1 spare for 140/s",
        "4 + 1 = 5",
        "35/s (as given)",
    ):
        assert part in text
