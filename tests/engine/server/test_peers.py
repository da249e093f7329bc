"""API processes ask each other over real sockets; one that does not answer counts as empty."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import zmq

from engine.server import peers as peers_module
from engine.server.peers import Peers


@pytest.fixture
async def context() -> AsyncIterator[zmq.Context[zmq.Socket[bytes]]]:
    made: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield made
    made.destroy(linger=0)  # also after a failed test: `term` would wait for its open sockets for ever


def make(worker: int, num_workers: int, ids: list[str], aborted: list[str]) -> Peers:
    def abort(request_id: str) -> bool:
        aborted.append(request_id)
        return request_id in ids

    return Peers(worker, num_workers, gateway_ids=lambda: ids, abort=abort)


async def test_three_processes(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    aborted: list[list[str]] = [[], [], []]
    ids = [["a"], ["b"], ["c", "d"]]
    with tempfile.TemporaryDirectory(prefix="tw-") as folder:
        peers = [make(worker, 3, ids[worker], aborted[worker]) for worker in range(3)]
        for peer in peers:
            peer.open(context, Path(folder))
        assert await peers[0].gateway_ids() == {"b", "c", "d"}
        assert await peers[2].gateway_ids() == {"a", "b"}
        assert await peers[0].abort("d") is True
        assert await peers[0].abort("a") is False  # its own: not the others' business
        assert aborted == [[], ["d", "a"], ["d", "a"]]
        for peer in peers:
            peer.close()


async def test_a_silent_sibling(
    context: zmq.Context[zmq.Socket[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers_module, "ANSWER_TIMEOUT_S", 2.0)
    with tempfile.TemporaryDirectory(prefix="tw-") as folder:
        first, second = (make(worker, 3, [f"of {worker}"], []) for worker in (0, 1))
        first.open(context, Path(folder))
        second.open(context, Path(folder))
        assert await first.gateway_ids() == {"of 1"}
        first.close()
        second.close()


async def test_alone() -> None:
    alone = make(0, 1, ["a"], [])
    assert await alone.gateway_ids() == set()
    assert await alone.abort("a") is False
