"""kernels.bench_cases: every op has a case, and every case runs (at sizes that the interpreter bears)."""

from __future__ import annotations

import torch

from kernels.bench_cases import LLAMA_3_8B, Sizes, cases

TINY = Sizes(
    64,
    48,
    4,
    2,
    16,
    300,
    16,
    steps=(1, 3),
    rows=((1, 40), (3, 17)),
    shared=((4, 272, 9),),
    prompts=((2, 20, 3),),
    cold_bytes=0,
)
TIMED = {
    "matvec", "small_matmul", "matmul_fp8", "rms_norm", "gated_act", "quantize", "rope_and_cache",
    "paged_attention", "expand_batch", "attention_plan", "greedy", "survivors", "race",
}  # fmt: skip


def test_every_case_runs() -> None:
    seen = set()
    for case in cases(TINY, torch.device("cuda" if torch.cuda.is_available() else "cpu")):
        seen.add(case.op)
        assert case.num_bytes > 0, case
        assert len(case.runs) == 2, "memory of its own for each"
        if torch.cuda.is_available() or case.op != "library":
            case.runs[0]()
    assert seen >= TIMED - {"small_matmul"}, "tiny weights stay with the library"


def test_the_timed_sizes_are_those_of_the_8b_model() -> None:
    sizes = LLAMA_3_8B
    weights = (
        sizes.hidden * (sizes.heads + 2 * sizes.kv_heads) * sizes.dim + sizes.hidden * sizes.heads * sizes.dim
    )
    weights += 3 * sizes.hidden * sizes.ffn
    assert 32 * weights + sizes.vocab * sizes.hidden == 7_504_658_432
