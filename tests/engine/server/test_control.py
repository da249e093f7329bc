"""Control lines survive any cutting of the stream and carry the whole configuration."""

from __future__ import annotations

import asyncio
import socket

from engine.config import EngineConfig
from engine.messages import Shutdown, WorkerGone
from engine.server.control import ApiSpec, CoreSpec, Drain, LineReader, ToApi, ToCore, encode_line, read_lines


def test_a_configuration_comes_back_whole() -> None:
    config = EngineConfig.from_flags({"model": "m", "api_key": ("a", "b"), "max_num_seqs": 7, "port": 1})
    spec = CoreSpec(config, "/run", 3, "epoch")
    ours, theirs = socket.socketpair()
    theirs.sendall(encode_line(spec))
    assert list(LineReader(ours, ToCore).receive()) == [spec]
    ours.close()
    theirs.close()


def test_lines_cut_anywhere() -> None:
    ours, theirs = socket.socketpair()
    reader = LineReader(ours, WorkerGone | Shutdown)
    data = encode_line(WorkerGone(worker=1)) + encode_line(Shutdown())
    got = []
    for byte in data:
        theirs.sendall(bytes([byte]))
        got += list(reader.receive())
    assert got == [WorkerGone(worker=1), Shutdown()]
    theirs.close()
    assert list(reader.receive()) == []
    assert reader.ended
    ours.close()


async def test_asyncio_side() -> None:
    reader = asyncio.StreamReader()
    spec = ApiSpec(EngineConfig.from_flags({"model": "m"}), 0, "/run", 5)
    reader.feed_data(encode_line(spec) + encode_line(Drain()) + b'{"type":"torn')
    reader.feed_eof()
    assert [message async for message in read_lines(reader, ToApi)] == [spec, Drain()]
