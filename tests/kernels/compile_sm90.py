"""Compiles every Triton kernel at the 8B model's shapes for sm_90, without a GPU, and prints what it uses.

Run by `test_compile_sm90` in a process of its own: the interpreter of the other tests must be off. Launches are
caught: the wrapper's own arguments, grid and options are used, and the kernel is compiled instead of run.
One JSON line a launch: name, shared memory, registers, local memory (spills), bytes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from engine.layers.invariant import FP8_LAUNCH, GPU_TILE, GPU_TOKENS
from kernels.attention_plan import allocate_plan, build_plan
from kernels.bad_words import MAX_WORD_TOKENS, MAX_WORDS, forbid_words
from kernels.e4m3 import E4M3
from kernels.expand_batch import allocate_batch, expand_batch, write_sampled
from kernels.fresh_keys import FreshKeys
from kernels.gated_act import gated_act_triton
from kernels.greedy import choose_greedily_triton
from kernels.logit_edits import edit_logits
from kernels.logprobs import allocate_logprobs, find_logprobs
from kernels.matmul_fp8 import arrivals, choose_launch, matmul_fp8_triton
from kernels.matvec import matvec_triton
from kernels.matvec_fp8 import matvec_fp8_triton
from kernels.paged_attention import NARROW_LAUNCH_MANY_FP8, WIDE_LAUNCH_MANY, paged_attention_triton
from kernels.penalties import penalise_triton
from kernels.quantize import gated_act_fp8_triton, quantize_rows_triton, rms_norm_fp8_triton
from kernels.race import allocate_race, run_race
from kernels.rms_norm import rms_norm_triton
from kernels.rope_and_cache import rope_and_cache_triton
from kernels.sampling_table import WORDS
from kernels.small_matmul import MAX_ROWS, small_matmul_triton
from kernels.small_tiles import choose_tile
from kernels.survivors import allocate_survivors, find_survivors

HEADS, KV_HEADS, DIM, HIDDEN, FFN, TOKENS, ROWS = 32, 8, 128, 4096, 14336, 48, 4
VOCABS = (128256, 262144)
POINTERS = {
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.bfloat16: "*bf16",
    torch.float8_e4m3fn: "*fp8e4nv",
    torch.int32: "*i32",
    torch.int64: "*i64",
}
CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"


def _compile(kernel: JITFunction, *args: Any, grid: object, warmup: bool, **kwargs: Any) -> None:
    names = [parameter.name for parameter in kernel.params]
    bound = dict(zip(names, args, strict=False)) | {k: v for k, v in kwargs.items() if k in names}
    bound |= {name: True for name in ("PDL", "ON_DEVICE") if name in names}
    options = {k: v for k, v in kwargs.items() if k not in names}
    signature: dict[str, str] = {}
    constants: dict[str, object] = {}
    for parameter in kernel.params:
        value = bound[parameter.name]
        if parameter.is_constexpr or value is None:
            signature[parameter.name], constants[parameter.name] = "constexpr", value
        elif isinstance(value, Tensor):
            signature[parameter.name] = POINTERS[value.dtype]
        else:
            signature[parameter.name] = "fp32" if isinstance(value, float) else "i32"
    aligned = {
        (names.index(name),): [["tt.divisibility", 16]]
        for name, kind in signature.items()
        if kind.startswith("*") or (kind == "i32" and bound[name] % 16 == 0)
    }
    source = ASTSource(kernel, signature, constants, aligned)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    print(
        json.dumps(
            {
                "name": kernel.__name__,
                "shared": compiled.metadata.shared,
                "warps": compiled.metadata.num_warps,
            }
            | _usage(compiled)
        )
    )


def _usage(compiled: Any) -> dict[str, int]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        dump = [str(CUOBJDUMP), "--dump-resource-usage", file.name]
        text = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", text))
    return {name.lower(): int(value) for name, value in found.items()}


def main() -> None:
    def launcher(kernel: JITFunction, grid: object) -> Any:
        return lambda *args, **kwargs: _compile(kernel, *args, grid=grid, warmup=False, **kwargs)

    JITFunction.__getitem__ = launcher  # type: ignore[method-assign]  # the one place where a launch begins
    x = torch.zeros(TOKENS, HIDDEN, dtype=torch.bfloat16)
    weight = torch.zeros(HIDDEN)
    rms_norm_triton(x, weight, 1e-5)
    rms_norm_triton(x, weight, 1e-5, x)
    for kind in ("silu", "gelu_tanh"):
        gated_act_triton(torch.zeros(TOKENS, 2 * FFN, dtype=torch.bfloat16), kind)
    row, narrow, wide = x[:1], torch.zeros(HIDDEN, HIDDEN).bfloat16(), torch.zeros(FFN * 2, HIDDEN).bfloat16()
    matvec_triton(row, narrow, residual=row)
    matvec_triton(row, narrow, norm=weight, eps=1e-5)
    matvec_triton(row, wide, norm=weight, eps=1e-5, act="silu")
    _few_tokens(x)
    _fp8_weights(x, weight)
    qkv = torch.zeros(TOKENS, HEADS + 2 * KV_HEADS, DIM, dtype=torch.bfloat16)
    q, k, v = qkv.split((HEADS, KV_HEADS, KV_HEADS), 1)
    pools = [torch.zeros(9, 32, 2, KV_HEADS, 16, DIM, dtype=dtype)[:, 1] for dtype in (torch.bfloat16, E4M3)]
    scales = [None, torch.ones(2, KV_HEADS)]
    slots = torch.zeros(TOKENS, dtype=torch.int64)
    for kv, scale in zip(pools, scales, strict=True):
        for norm in (None, weight[:DIM]):
            rope_and_cache_triton(q, k, v, slots, torch.zeros(64, DIM), kv, slots, norm, norm, kv_scale=scale)
    for window in (None, 512):
        plan = allocate_plan(ROWS, TOKENS, HEADS, KV_HEADS, DIM, x.device, window)
        table, lens = torch.zeros(ROWS, 16, dtype=torch.int32), torch.zeros(ROWS, dtype=torch.int32)
        build_plan(plan, torch.zeros(ROWS + 1, dtype=torch.int32), lens, lens, table, 16)
        for launch in (None, WIDE_LAUNCH_MANY):
            for kv, scale in zip(pools, scales, strict=True):
                paged_attention_triton(q, kv, table, 0.1, None, plan, scale, wide_launch=launch)
        sized = plan.sized(ROWS, TOKENS, wide=False)
        many = NARROW_LAUNCH_MANY_FP8
        paged_attention_triton(q, pools[1], table, 0.1, None, sized, scales[1], narrow_launch=many)
        for kv, scale in zip(pools, scales, strict=True):
            for norm in (None, weight[:DIM]):
                fresh = FreshKeys(k, v, slots, torch.zeros(64, DIM), norm, norm)
                paged_attention_triton(q, kv, table, 0.1, None, sized, scale, fresh)
    _fixed(q, pools, scales)
    _step_inputs(slots.device)
    for vocab in VOCABS:
        _sample(vocab, x.device)


def _fixed(q: Tensor, pools: list[Tensor], scales: list[Tensor | None]) -> None:
    """What `--batch-invariant` launches, the same for every size of a step."""
    plan = allocate_plan(ROWS, TOKENS, HEADS, KV_HEADS, DIM, q.device, is_fixed=True)
    build_plan(plan, torch.zeros(ROWS + 1, dtype=torch.int32), torch.zeros(ROWS, dtype=torch.int32))
    table = torch.zeros(ROWS, 16, dtype=torch.int32)
    for kv, scale in zip(pools, scales, strict=True):
        paged_attention_triton(q, kv, table, 0.1, None, plan, scale)
    for rows, columns in ((HIDDEN, FFN), (2 * FFN, HIDDEN)):
        weight, x = torch.empty(rows, columns).bfloat16(), torch.empty(TOKENS, columns).bfloat16()
        small_matmul_triton(x, weight, GPU_TILE, block_tokens=GPU_TOKENS)
        quantized, ones = weight.to(E4M3), torch.ones(max(rows, TOKENS))
        matmul_fp8_triton(x.to(E4M3), ones[:TOKENS, None], quantized, ones[:rows], x.dtype, FP8_LAUNCH)


def _few_tokens(x: Tensor) -> None:
    """Every tile that the 8B model's products take between 2 and 64 tokens."""
    arrived, stream = (
        torch.zeros(VOCABS[0] // 16, dtype=torch.int32),
        torch.zeros(MAX_ROWS, HIDDEN).bfloat16(),
    )
    shapes = (
        (HIDDEN + 2 * KV_HEADS * DIM, HIDDEN, None, False),
        (HIDDEN, HIDDEN, None, True),
        (2 * FFN, HIDDEN, "silu", False),
        (HIDDEN, FFN, None, True),
        (VOCABS[0], HIDDEN, None, False),
    )
    for rows, columns, act, added in shapes:
        # Pages of memory that nobody touches are not there.
        weight = torch.empty(rows, columns, dtype=torch.bfloat16)
        for tokens in (8, 16, 32, MAX_ROWS):
            tile = choose_tile(tokens, rows, columns, gated=act is not None)
            if tile is not None:
                inputs, residual = torch.empty(tokens, columns).bfloat16(), stream[:tokens] if added else None
                small_matmul_triton(inputs, weight, tile, act=act, residual=residual, arrived=arrived)


def _fp8_weights(x: Tensor, norm: Tensor) -> None:
    quantize_rows_triton(x)
    _, scale = rms_norm_fp8_triton(x, norm, 1e-5)
    gated_act_fp8_triton(torch.zeros(TOKENS, 2 * FFN, dtype=torch.bfloat16), "silu")
    for rows, columns in ((HIDDEN, HIDDEN), (2 * FFN, HIDDEN), (HIDDEN, FFN)):
        weight = torch.zeros(rows, columns, dtype=E4M3)
        act = "silu" if rows > FFN else None
        matvec_fp8_triton(weight[:1], scale[:1], weight, weight[:, 0].float(), x.dtype, act=act)
        arrived = torch.zeros(arrivals(rows), dtype=torch.int32)
        for tokens in (16, 32, 64, 128, 256):
            launch = choose_launch(tokens, rows, columns, may_split=True)
            if launch is not None:
                inputs, residual = (
                    torch.zeros(tokens, columns, dtype=E4M3),
                    torch.zeros(tokens, rows, dtype=x.dtype),
                )
                matmul_fp8_triton(
                    inputs, torch.zeros(tokens, 1), weight, weight[:, 0].float(), x.dtype, launch,
                    residual=None if act else residual, arrived=arrived,
                )  # fmt: skip


def _step_inputs(device: torch.device) -> None:
    work, blocks = torch.zeros(4, 256, dtype=torch.int32), torch.zeros(1, 256, 512, dtype=torch.int32)
    tokens = torch.zeros(256, 8193, dtype=torch.int32)
    batch = allocate_batch(256, 8192, 1, device)
    for num_tokens in (1, 256, 8192):
        expand_batch(batch, work, tokens, blocks, num_tokens, 16)
    write_sampled(tokens, work[0], work[1], work[2])


def _sample(vocab: int, device: torch.device) -> None:
    logits, ints = torch.zeros(ROWS, vocab), torch.zeros(ROWS, 64, dtype=torch.int32)
    per_row, table = ints[:, 0].contiguous(), torch.zeros(ROWS, WORDS, dtype=torch.int64)
    uses = torch.zeros(ROWS, vocab, dtype=torch.int32)
    survivors = allocate_survivors(ROWS, vocab, device)
    choose_greedily_triton(logits, per_row, uses, per_row, per_row)
    edit_logits(logits, logits, per_row, per_row, table, uses, ints, logits)
    words = torch.zeros(ROWS, MAX_WORDS, MAX_WORD_TOKENS, dtype=torch.int32)
    forbid_words(logits, per_row, per_row, table, words, ints)
    penalise_triton(logits, uses, per_row, per_row, table, ints)
    find_survivors(survivors, logits, per_row, table)
    race = allocate_race(ROWS, vocab, device)
    run_race(race, logits, per_row, per_row, table, survivors.cut, survivors.last, per_row)
    find_logprobs(allocate_logprobs(ROWS, vocab, device), logits, logits, per_row, per_row, table)


if __name__ == "__main__":
    sys.exit(main())
