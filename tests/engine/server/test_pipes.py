"""One-way pipes: order kept, bursts taken whole, nothing blocks on a reader that is gone."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import zmq

from engine.messages import AbortRequest, CoreInbound
from engine.server.pipes import Receiver, Sender, core_address


async def test_bursts_arrive_in_order() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    got: list[CoreInbound] = []
    with tempfile.TemporaryDirectory(prefix="tw-") as folder:
        address = core_address(Path(folder), 1)
        receiver: Receiver[CoreInbound] = Receiver(context, address, CoreInbound, got.append)
        sender: Sender[CoreInbound] = Sender(context, address)
        sent = [AbortRequest(request_ids=[str(number)]) for number in range(5000)]
        for message in sent:
            sender.send(message)
        async with asyncio.timeout(60):
            while len(got) < len(sent):  # noqa: ASYNC110  # sockets in between
                await asyncio.sleep(0.001)
        assert got == sent
        sender.close()
        receiver.close()
        context.term()


async def test_a_sender_without_a_reader_neither_blocks_nor_lingers() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with tempfile.TemporaryDirectory(prefix="tw-") as folder:
        sender: Sender[CoreInbound] = Sender(context, core_address(Path(folder), 1))
        for _ in range(2000):
            sender.send(AbortRequest(request_ids=["x"]))
        sender.close()
        await asyncio.wait_for(asyncio.to_thread(context.term), 60)
    assert context.closed
