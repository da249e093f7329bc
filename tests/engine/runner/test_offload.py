"""Copies between the pool and the host's tier: in order, whole pages, through both runners."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from engine.core.contract import KVLayout, PageMove, ScheduleOutput
from engine.models.loader import load_model
from engine.runner import offload
from engine.runner.gpu import GPURunner
from engine.runner.offload import HostPages
from engine.runner.runner import TorchRunner
from tests.models import write_tiny_gemma3

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SHAPE = (6, 3, 2, 1, 16, 8)


def schedule(offloads: list[tuple[int, int]], restores: list[tuple[int, int]]) -> ScheduleOutput:
    return ScheduleOutput(
        1,
        (),
        offloads=tuple(PageMove(page, host) for page, host in offloads),
        restores=tuple(PageMove(page, host) for page, host in restores),
    )


def numbered(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Page p holds p."""
    return torch.arange(SHAPE[0], device=DEVICE).view(-1, 1, 1, 1, 1, 1).expand(SHAPE).to(dtype).contiguous()


def held(pool: torch.Tensor) -> list[float]:
    pages = [page.unique().tolist() for page in pool.float().cpu()]
    assert all(len(page) == 1 for page in pages), "a page moves whole"
    return [page[0] for page in pages]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8])
def test_a_page_comes_back_as_it_went(dtype: torch.dtype) -> None:
    pool, host = numbered(dtype), HostPages(4, numbered(dtype))
    host.move(schedule([(2, 0), (3, 3)], []), pool)
    pool[2:4] = 9
    host.move(schedule([], [(5, 0), (2, 3)]), pool)
    assert held(pool) == [0, 1, 3, 9, 4, 2]


def test_offloads_come_before_restores_and_the_last_one_counts() -> None:
    pool, host = numbered(), HostPages(2, numbered())
    host.move(schedule([(1, 0), (2, 0), (3, 1)], [(3, 0)]), pool)
    assert held(pool) == [0, 1, 2, 2, 4, 5]
    host.move(schedule([], [(0, 1)]), pool)
    assert held(pool)[0] == 3


def test_more_pages_than_a_slab_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    page = numbered()[0].numel() * 4
    monkeypatch.setattr(offload, "_SLAB_BYTES", 2 * page)
    pool, host = numbered(), HostPages(5, numbered())
    host.move(schedule([(page, 4 - page) for page in range(5)], []), pool)
    host.move(schedule([], [(page, page) for page in range(5)]), pool)
    assert held(pool) == [4, 3, 2, 1, 0, 5]


@pytest.mark.parametrize("kind", [TorchRunner, GPURunner])
def test_runners_move_pages_with_a_step(kind: type[TorchRunner] | type[GPURunner], tmp_path: Path) -> None:
    write_tiny_gemma3(tmp_path)
    model = load_model(tmp_path, dtype=torch.float32, device=DEVICE, max_positions=101)
    config = model.config
    layout = KVLayout(16, 8, model.kv_groups, num_host_blocks=3)
    pool = torch.zeros(
        8, len(layout.groups[0].layer_ids), 2, config.num_kv_heads, 16, config.head_dim, device=DEVICE
    )
    pool += torch.arange(8, device=DEVICE).view(-1, 1, 1, 1, 1, 1)
    limits = {"max_num_seqs": 4, "max_model_len": 100}
    make: Callable[..., TorchRunner | GPURunner] = kind
    if kind is GPURunner:
        limits["max_num_batched_tokens"] = 64
        runner = make(model, pool, layout, dtype=torch.float32, **limits)
    else:
        runner = make(model, pool, layout, **limits)
    runner.collect(runner.launch(schedule([(3, 1), (5, 2)], [])))  # type: ignore[arg-type]  # its own handle
    runner.collect(runner.launch(schedule([], [(5, 1), (3, 2)])))  # type: ignore[arg-type]  # its own handle
    runner.close()
    assert held(pool) == [0, 1, 2, 5, 4, 3, 6, 7]
