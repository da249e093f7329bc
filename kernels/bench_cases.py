"""What `kernels.bench` times: every op at the shapes of the 8B model, with the bytes and operations it cannot avoid.

Place in the path: developer's tool; `kernels/bench.py` → here. A case is the same work on several sets of memory, so
that the second-level cache holds none of it where a step's weights and pages would not be there either. Bytes count
every input once and every output once. Knows no model but its sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from kernels.attention_plan import AttentionPlan, allocate_plan, build_plan
from kernels.e4m3 import E4M3
from kernels.expand_batch import allocate_batch, expand_batch
from kernels.fresh_keys import FreshKeys
from kernels.gated_act import gated_act_triton
from kernels.greedy import choose_greedily_triton
from kernels.matmul_fp8 import Launch, arrivals, choose_launch, matmul_fp8, matmul_fp8_triton
from kernels.matvec import matvec_triton
from kernels.matvec_fp8 import matvec_fp8_triton
from kernels.paged_attention import paged_attention_triton
from kernels.quantize import quantize_rows_triton
from kernels.race import allocate_race, run_race
from kernels.rms_norm import rms_norm_triton
from kernels.rope_and_cache import rope_and_cache_triton
from kernels.sampling_table import pack_row, pack_rows
from kernels.small_matmul import Tile, small_matmul_triton
from kernels.small_tiles import choose_tile
from kernels.survivors import allocate_survivors, find_survivors

Run = Callable[[], object]

__all__ = ["LLAMA_3_8B", "Case", "Sizes", "cases"]


_SETS_MAX = 40


@dataclass(frozen=True, slots=True)
class Sizes:
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    dim: int
    vocab: int
    page: int
    steps: tuple[int, ...]
    """Tokens of a step, for the ops of a step's tokens."""
    rows: tuple[tuple[int, int], ...]
    """Decode steps: rows and keys of each."""
    shared: tuple[tuple[int, int, int], ...]
    """Decode steps: rows, keys that all of them begin with, and keys that each has of its own behind these."""
    prompts: tuple[tuple[int, int, int], ...]
    """Mixed steps: prompts, new tokens of each, keys in front of them."""
    cold_bytes: int
    """Memory that the sets of a case hold together: several times the cache."""


LLAMA_3_8B = Sizes(
    4096, 14336, 32, 8, 128, 128256, 16,
    steps=(1, 32, 256, 4096),
    rows=((1, 384), (8, 4200), (64, 512), (128, 160), (256, 1536)),
    shared=((32, 2000, 128), (256, 2000, 128)),
    prompts=((1, 4096, 0), (1, 2048, 6144), (16, 128, 0)),
    cold_bytes=400_000_000,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    op: str
    shape: str
    num_bytes: int
    operations: int
    runs: tuple[Run, ...]


def cases(sizes: Sizes, device: torch.device) -> Iterator[Case]:
    """One after the other, so that only one's memory is taken at a time."""
    with device:
        yield from _products(sizes)
        yield from _fp8_products(sizes)
        yield from _pointwise(sizes)
        yield from _decode_attention(sizes)
        yield from _shared_attention(sizes)
        yield from _prompt_attention(sizes)
        yield from _step_inputs(sizes)
        yield from _choices(sizes)


def _case(
    op: str,
    shape: str,
    num_bytes: int,
    operations: int,
    cold: int,
    make: Callable[..., Run],
    *arguments: object,
) -> Case:
    """Every call of `make` takes memory of its own."""
    count = max(2, min(_SETS_MAX, cold // max(num_bytes, 1) + 1))
    return Case(op, shape, num_bytes, operations, tuple(make(*arguments) for _ in range(count)))


def _weights(sizes: Sizes) -> list[tuple[str, int, int, str | None]]:
    """Name, rows, columns and activation of the products of a layer, and the head."""
    qkv = (sizes.heads + 2 * sizes.kv_heads) * sizes.dim
    return [
        ("qkv", qkv, sizes.hidden, None),
        ("out", sizes.hidden, sizes.heads * sizes.dim, None),
        ("gate_up", 2 * sizes.ffn, sizes.hidden, "silu"),
        ("down", sizes.hidden, sizes.ffn, None),
        ("head", sizes.vocab, sizes.hidden, None),
    ]


def _products(sizes: Sizes) -> Iterator[Case]:
    for name, rows, columns, act in _weights(sizes):
        for tokens in (1, 8, 32, 64):
            tile = choose_tile(tokens, rows, columns, gated=act is not None)
            op = "matvec" if tokens == 1 else "library" if tile is None else "small_matmul"
            num_bytes = 2 * (rows * columns + tokens * (rows + columns))
            arguments = (tokens, rows, columns, act, name in ("out", "down"), tile)
            operations = 2 * tokens * rows * columns
            yield _case(
                op, f"{name} × {tokens}", num_bytes, operations, sizes.cold_bytes, _product, *arguments
            )


def _product(tokens: int, rows: int, columns: int, act: str | None, added: bool, tile: Tile | None) -> Run:
    x, weight = _random(tokens, columns), _random(rows, columns)
    residual = _random(tokens, rows) if added else None
    if tokens == 1:
        norm = None if added else torch.ones(columns)
        return lambda: matvec_triton(x, weight, norm=norm, act=act, residual=residual)
    if tile is None:
        return lambda: functional.linear(x, weight)
    arrived = torch.zeros(rows, dtype=torch.int32)
    return lambda: small_matmul_triton(x, weight, tile, act=act, residual=residual, arrived=arrived)


def _fp8_products(sizes: Sizes) -> Iterator[Case]:
    for name, rows, columns, act in _weights(sizes):
        for tokens in (1, 8, 32, 64, 128, 256):
            launch = choose_launch(tokens, rows, columns, may_split=True)
            op = "matvec_fp8" if tokens == 1 else "library fp8" if launch is None else "matmul_fp8"
            # fp8 operations count half: the units do twice as many.
            sums = rows * columns + 2 * tokens * (rows + columns), tokens * rows * columns
            arguments = (tokens, rows, columns, act, name in ("out", "down"), launch)
            yield _case(op, f"{name} × {tokens}", *sums, sizes.cold_bytes, _fp8_product, *arguments)


def _fp8_product(
    tokens: int, rows: int, columns: int, act: str | None, added: bool, launch: Launch | None
) -> Run:
    x, weight, scale = _random(tokens, columns), _random(rows, columns).to(E4M3), torch.ones(rows)
    (q, x_scale), arrived = quantize_rows_triton(x), torch.zeros(arrivals(rows), dtype=torch.int32)
    residual = _random(tokens, rows) if added else None
    if tokens == 1:
        return lambda: matvec_fp8_triton(q, x_scale, weight, scale, x.dtype, act=act, residual=residual)
    if launch is None:
        return lambda: matmul_fp8(q, x_scale, weight, scale, x.dtype, residual=residual)
    return lambda: matmul_fp8_triton(
        q, x_scale, weight, scale, x.dtype, launch, residual=residual, arrived=arrived
    )


def _pointwise(sizes: Sizes) -> Iterator[Case]:
    heads = (sizes.heads + 2 * sizes.kv_heads) * sizes.dim
    for tokens in sizes.steps:
        for op, values, make in (
            ("rms_norm", 4 * sizes.hidden, _norm),
            ("gated_act", 6 * sizes.ffn, _gate),
            ("quantize", 3 * sizes.hidden, _quantize),
            ("rope_and_cache", 4 * heads, _rope),
        ):
            yield _case(op, f"{tokens} tokens", tokens * values, 0, sizes.cold_bytes, make, sizes, tokens)


def _norm(sizes: Sizes, tokens: int) -> Run:
    x, weight = _random(tokens, sizes.hidden), torch.ones(sizes.hidden)
    return lambda: rms_norm_triton(x, weight, 1e-5)


def _gate(sizes: Sizes, tokens: int) -> Run:
    x = _random(tokens, 2 * sizes.ffn)
    return lambda: gated_act_triton(x, "silu")


def _quantize(sizes: Sizes, tokens: int) -> Run:
    x = _random(tokens, sizes.hidden)
    return lambda: quantize_rows_triton(x)


def _rope(sizes: Sizes, tokens: int) -> Run:
    step = _attention_step(sizes, [1] * tokens, [1] * tokens, torch.bfloat16)
    fresh, positions = step.fresh, step.fresh.slots * 0
    return lambda: rope_and_cache_triton(
        step.q, fresh.k, fresh.v, positions, fresh.cos_sin, step.kv, fresh.slots
    )


@dataclass(frozen=True, slots=True)
class _Step:
    q: Tensor
    kv: Tensor
    table: Tensor
    plan: AttentionPlan
    fresh: FreshKeys


def _attention_step(
    sizes: Sizes, lengths: list[int], queries: list[int], dtype: torch.dtype, shared: int = 0
) -> _Step:
    """Rows of `lengths` keys, the last `queries` of them new, on pages in random order: of their own, but for the first
    `shared` keys."""
    tokens, rows = sum(queries), len(lengths)
    pages = [-(-length // sizes.page) for length in lengths]
    order = torch.randperm(sum(pages)).to(torch.int32)
    table = torch.zeros(rows, max(pages), dtype=torch.int32)
    for row, ids in enumerate(order.split(pages)):
        table[row, : len(ids)] = ids
    table[:, : shared // sizes.page] = table[0, : shared // sizes.page].clone()
    kv = _random(sum(pages), 2, sizes.kv_heads, sizes.page, sizes.dim).to(dtype)
    heads = _random(tokens, sizes.heads + 2 * sizes.kv_heads, sizes.dim)
    q, k, v = heads.split((sizes.heads, sizes.kv_heads, sizes.kv_heads), 1)
    owner = torch.repeat_interleave(torch.arange(rows), torch.tensor(queries))
    spans = zip(lengths, queries, strict=True)
    position = torch.cat([torch.arange(length - count, length) for length, count in spans])
    slots = table[owner, position // sizes.page].long() * sizes.page + position % sizes.page
    query_start = torch.tensor([0, *queries]).cumsum(0).to(torch.int32)
    shape = (sizes.heads, sizes.kv_heads, sizes.dim)
    plan = allocate_plan(rows, tokens, *shape, q.device)
    plan = plan.sized(rows, tokens, wide=max(queries) > plan.narrow_tokens)
    build_plan(plan, query_start, torch.tensor(lengths, dtype=torch.int32), None, table, sizes.page)
    return _Step(q, kv, table, plan, FreshKeys(k, v, slots, torch.zeros(max(lengths), sizes.dim)))


def _decode_attention(sizes: Sizes) -> Iterator[Case]:
    for dtype, label in ((torch.bfloat16, ""), (E4M3, ", fp8 pages")):
        for rows, keys in sizes.rows:
            shape = f"{rows} rows × {keys} keys, rope and write{label}"
            yield _decode_case(sizes, shape, rows, keys, dtype)


def _shared_attention(sizes: Sizes) -> Iterator[Case]:
    for dtype, label in ((torch.bfloat16, ""), (E4M3, ", fp8 pages")):
        for rows, shared, own in sizes.shared:
            shape = f"{rows} rows × {own} keys behind {shared} shared{label}"
            yield _decode_case(sizes, shape, rows, own, dtype, shared)


def _decode_case(sizes: Sizes, shape: str, rows: int, own: int, dtype: torch.dtype, shared: int = 0) -> Case:
    new = 2 * rows * (2 * sizes.heads + 2 * sizes.kv_heads) * sizes.dim
    num_bytes = 2 * dtype.itemsize * (shared + rows * own) * sizes.kv_heads * sizes.dim + new
    operations = 4 * rows * (shared + own) * sizes.heads * sizes.dim
    arguments = (sizes, rows, shared + own, dtype, shared)
    return _case("paged_attention", shape, num_bytes, operations, sizes.cold_bytes, _decode, *arguments)


def _decode(sizes: Sizes, rows: int, keys: int, dtype: torch.dtype, shared: int) -> Run:
    step = _attention_step(sizes, [keys] * rows, [1] * rows, dtype, shared)
    scale = torch.ones(2, sizes.kv_heads) if dtype == E4M3 else None
    return lambda: paged_attention_triton(
        step.q, step.kv, step.table, 0.1, None, step.plan, scale, step.fresh
    )


def _prompt_attention(sizes: Sizes) -> Iterator[Case]:
    for count, new, before in sizes.prompts:
        keys = count * (before + new)
        num_bytes = 4 * keys * sizes.kv_heads * sizes.dim + 4 * count * new * sizes.heads * sizes.dim
        pairs = count * (new * before + new * (new + 1) // 2)
        shape = f"{count} × {new} new tokens behind {before}"
        operations = 4 * pairs * sizes.heads * sizes.dim
        arguments = (sizes, count, new, before)
        yield _case("paged_attention", shape, num_bytes, operations, sizes.cold_bytes, _prompts, *arguments)


def _prompts(sizes: Sizes, count: int, new: int, before: int) -> Run:
    step = _attention_step(sizes, [before + new] * count, [new] * count, torch.bfloat16)
    return lambda: paged_attention_triton(step.q, step.kv, step.table, 0.1, None, step.plan)


def _step_inputs(sizes: Sizes) -> Iterator[Case]:
    for rows in (1, max(rows for rows, _ in sizes.rows)):
        shape = f"{rows} rows"
        yield _case("expand_batch", shape, 48 * rows, 0, 0, _expand, sizes, rows)
        yield _case("attention_plan", shape, 40 * rows, 0, 0, _plan, sizes, rows)


def _expand(sizes: Sizes, rows: int) -> Run:
    tokens = torch.zeros(rows, 64 * sizes.page, dtype=torch.int32)
    blocks = torch.zeros(1, rows, 64, dtype=torch.int32)
    batch = allocate_batch(rows, rows, 1, tokens.device)
    work = torch.ones(4, rows, dtype=torch.int32)
    work[0] = torch.arange(rows)
    return lambda: expand_batch(batch, work, tokens, blocks, rows, sizes.page)


def _plan(sizes: Sizes, rows: int) -> Run:
    start, lens = torch.arange(rows + 1, dtype=torch.int32), torch.full((rows,), 2101, dtype=torch.int32)
    plan = allocate_plan(rows, rows, sizes.heads, sizes.kv_heads, sizes.dim, lens.device)
    sized, table = plan.sized(rows, rows, wide=False), torch.arange(160, dtype=torch.int32).repeat(rows, 1)
    return lambda: build_plan(sized, start, lens, None, table, sizes.page)


def _choices(sizes: Sizes) -> Iterator[Case]:
    for rows in (1, max(rows for rows, _ in sizes.rows)):
        for op, shape, make in (
            ("greedy", f"{rows} rows", _greedy),
            ("survivors", f"{rows} rows, top-k and top-p", _filter),
            ("race", f"{rows} rows, top-k and top-p", _race),
        ):
            yield _case(op, shape, 4 * rows * sizes.vocab, 0, sizes.cold_bytes, make, sizes, rows)


def _greedy(sizes: Sizes, count: int) -> Run:
    logits, rows = torch.randn(count, sizes.vocab), torch.arange(count, dtype=torch.int32)
    ids, tokens = torch.zeros(count, dtype=torch.int32), torch.zeros(count, 1, dtype=torch.int32)
    positions = rows * 0
    return lambda: choose_greedily_triton(logits, ids, tokens, rows, positions)


def _drawn(count: int, device: torch.device) -> Tensor:
    return pack_rows([pack_row(temperature=0.8, top_k=50, top_p=0.95)] * count).to(device)


def _filter(sizes: Sizes, count: int) -> Run:
    logits, rows = torch.randn(count, sizes.vocab), torch.arange(count, dtype=torch.int32)
    table, survivors = _drawn(count, rows.device), allocate_survivors(count, sizes.vocab, rows.device)
    return lambda: find_survivors(survivors, logits, rows, table)


def _race(sizes: Sizes, count: int) -> Run:
    logits, rows = torch.randn(count, sizes.vocab), torch.arange(count, dtype=torch.int32)
    table, survivors = _drawn(count, rows.device), allocate_survivors(count, sizes.vocab, rows.device)
    find_survivors(survivors, logits, rows, table)
    race, ids = allocate_race(count, sizes.vocab, rows.device), torch.zeros(count, dtype=torch.int32)
    return lambda: run_race(race, logits, rows, rows, table, survivors.cut, survivors.last, ids)


def _random(*shape: int) -> Tensor:
    """bf16, never zeros: they run faster than real data and hide unwritten outputs."""
    return torch.randn(shape, dtype=torch.bfloat16)
