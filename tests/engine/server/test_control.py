"""Control lines survive any cutting of the stream and carry the whole configuration."""

from __future__ import annotations

import asyncio
import socket

import pytest

from engine.config import EngineConfig
from engine.messages import Shutdown, WorkerGone
from engine.server.control import ApiSpec, CoreSpec, Drain, LineReader, ToApi, ToCore, encode_line, read_lines


def test_a_configuration_comes_back_whole() -> None:
    config = EngineConfig.from_flags({"model": "m", "api_key": ("a", "b"), "max_num_seqs": 7, "port": 1})
    spec = CoreSpec(config, "/run", 3, "epoch")
    ours, theirs = socket.socketpair()
    theirs.sendall(encode_line(spec) + encode_line(WorkerGone(worker=1)))
    reader = LineReader(ours, ToCore)
    assert reader.wait_first() == spec
    assert reader.has_messages
    assert reader.take() == [WorkerGone(worker=1)]
    theirs.close()
    with pytest.raises(ConnectionResetError):
        reader.wait_first()
    ours.close()


def test_lines_cut_anywhere() -> None:
    ours, theirs = socket.socketpair()
    reader = LineReader(ours, WorkerGone | Shutdown)
    got = []
    for byte in encode_line(WorkerGone(worker=1)) + encode_line(Shutdown()):
        theirs.sendall(bytes([byte]))
        reader.read()
        got += reader.take()
    assert got == [WorkerGone(worker=1), Shutdown()]
    theirs.close()
    reader.read()
    assert (reader.take(), reader.ended) == ([], True)
    ours.close()


async def test_asyncio_side() -> None:
    reader = asyncio.StreamReader()
    spec = ApiSpec(EngineConfig.from_flags({"model": "m"}), 0, "/run", 5)
    reader.feed_data(encode_line(spec) + encode_line(Drain()) + b'{"type":"torn')
    reader.feed_eof()
    assert [message async for message in read_lines(reader, ToApi)] == [spec, Drain()]
