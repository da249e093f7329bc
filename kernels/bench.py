"""`python -m kernels.bench [OP…]`: µs of every kernel at the 8B model's shapes, and how near that is to its floor.

Place in the path: developer's tool, on a GPU. Times replays of a CUDA graph that holds a case's launches on different
memory, as in a decode step; the floor is the larger of bytes over the read rate and operations over the matrix rate
that BENCHMARKS.md states. Names of ops as arguments leave out all others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch

from kernels.bench_cases import LLAMA_3_8B, Case, cases

__all__ = ["floor_us", "line", "main"]

READ_BYTES_PER_S = 4.5e12
OPERATIONS_PER_S = 750e12
_REPLAYS = 9
_REFRESH_BYTES = 1 << 31


def floor_us(case: Case) -> float:
    return 1e6 * max(case.num_bytes / READ_BYTES_PER_S, case.operations / OPERATIONS_PER_S)


def line(case: Case, time_us: float) -> str:
    """One row of the table."""
    floor = floor_us(case)
    share = f"{floor / time_us:.0%}" if floor >= 3 else "latency"
    bound = (
        "operations" if case.operations / OPERATIONS_PER_S > case.num_bytes / READ_BYTES_PER_S else "bytes"
    )
    return f"| {case.op} | {case.shape} | {time_us:.1f} | {floor:.1f} | {bound} | {share} |"


def main(ops: list[str]) -> None:
    device = torch.device("cuda")
    torch.manual_seed(0)
    print(_control(device))
    print("| op | shape | µs | floor µs | bound by | of the floor |\n|---|---|--:|--:|---|--:|")
    for case in cases(LLAMA_3_8B, device):
        if not ops or case.op in ops:
            print(line(case, _time_us(list(case.runs))), flush=True)


def _control(device: torch.device) -> str:
    """What the card reads and multiplies today: floors are stated for a usual day."""
    numbers = torch.randn(_REFRESH_BYTES // 2, device=device, dtype=torch.bfloat16)
    square = numbers[: 8192 * 8192].view(8192, 8192)
    read_us = _time_us([lambda: numbers.sum()])
    product_us = _time_us([lambda: square @ square])
    rates = _REFRESH_BYTES / read_us / 1e6, 2e-6 * 8192**3 / product_us
    return "control: read {:.2f} TB/s, product {:.0f} TFLOP/s".format(*rates)


def _time_us(runs: list[Callable[[], object]]) -> float:
    """Median over the replays of a graph of `runs`, for each of them."""
    for run in runs:
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for run in runs:
            run()
    graph.replay()
    times: list[float] = []
    for _ in range(_REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(float(begin.elapsed_time(end)))
    return 1e3 * sorted(times)[_REPLAYS // 2] / len(runs)


if __name__ == "__main__":
    with torch.inference_mode():
        main(sys.argv[1:])
