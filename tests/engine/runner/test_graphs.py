"""engine.runner.graphs: the smallest graph that holds a step. Without a GPU there is none, and that is said."""

from __future__ import annotations

import gc

import torch

from engine.runner.graphs import MIXED_SIZES, TOKEN_SIZES, GraphSet


def test_sizes_grow_and_padding_stays_small() -> None:
    """Duty engine-8: few sizes, each little larger than what it holds."""
    for sizes in (TOKEN_SIZES, MIXED_SIZES):
        assert list(sizes) == sorted(set(sizes))
    for step in range(128, MIXED_SIZES[-1] + 1):
        padded = min(size for size in MIXED_SIZES if size >= step)
        assert padded - step < max(32, step // 4)


def test_replays_what_holds_the_size_or_says_no() -> None:
    ran: list[int] = []
    source, target = torch.arange(20.0), torch.zeros(20)
    graphs = GraphSet([4, 8, 16])
    assert not graphs.replay(3)
    if not torch.cuda.is_available():
        return
    source, target = source.cuda(), target.cuda()

    def run(size: int) -> None:
        ran.append(size)
        assert not gc.isenabled(), "a graph that is freed during a capture breaks it"
        torch.add(source[:size], 1, out=target[:size])

    graphs.capture(torch.cuda.graph_pool_handle(), run, count=2)
    assert gc.isenabled()
    assert ran == [16, 16, 8, 8], "largest first, once eagerly and once under capture"
    target.zero_()
    assert graphs.replay(5)
    assert target.tolist() == [*range(1, 9), *[0] * 12]
    assert not graphs.replay(17)
