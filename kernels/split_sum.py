"""The end of a product whose columns are split among programs: the last one to arrive adds the parts up.

Place in the path: `small_matmul` and `matmul_fp8` → here. The parts are added in their own order and not in that of
arrival, so the sum does not depend on timing. Knows no weight.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["sum_parts"]


@triton.jit
def sum_parts(acc, partial, arrived, tile, part, tiles, SPLITS: tl.constexpr):
    """The sum over a tile's SPLITS parts, `acc` being the one numbered `part`, and whether this program has it.

    partial fp32 [SPLITS, tiles, size of acc], anything; arrived int32 [tiles] zeros, left as zeros.
    """
    size: tl.constexpr = acc.shape[0] * acc.shape[1]
    inner = tl.arange(0, acc.shape[0])[:, None] * acc.shape[1] + tl.arange(0, acc.shape[1])[None, :]
    tl.store(partial + (part * tiles + tile).to(tl.int64) * size + inner, acc)
    tl.debug_barrier()  # all of this program's stores come before its arrival
    last = tl.atomic_add(arrived + tile, 1, sem="acq_rel") == SPLITS - 1
    if last:
        tl.store(arrived + tile, 0)
        acc = tl.zeros([acc.shape[0], acc.shape[1]], tl.float32)
        for number in tl.static_range(SPLITS):
            # .cg: other programs wrote these; this multiprocessor's L1 may be stale.
            at = partial + (number * tiles + tile).to(tl.int64) * size + inner
            acc += tl.load(at, cache_modifier=".cg")
    return acc, last
