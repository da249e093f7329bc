"""The channel: order, batches, and what happens to calls and posts when the server goes."""

import asyncio
import socket
from pathlib import Path

import pytest

from gateway.limits.channel import POSTS_MAX, ChannelLost, Reply, ScriptChannel
from gateway.local.valkey import EmbeddedValkey
from tests.gateway.limits.support import cache_of, eventually

APPEND = "redis.call('RPUSH', KEYS[1], ARGV[1]); return redis.call('LLEN', KEYS[1])"


def ignore(*_: object) -> None:
    return None


async def test_everything_goes_out_in_order(cache_url: str) -> None:
    cache = cache_of(cache_url)
    channel = ScriptChannel(cache, APPEND, ignore, ignore, ignore)
    channel.start()
    for number in range(300):
        channel.post(("list",), (number,))
    assert await channel.call(("list",), ("last",), ignore) == 301
    assert await cache.lrange("list", 0, -1) == [*(b"%d" % n for n in range(300)), b"last"]
    await channel.stop(1)
    await cache.aclose()


async def test_caller_cancelled_when_its_answer_is_there_does_not_lose_it(cache_url: str) -> None:
    cache = cache_of(cache_url)
    channel = ScriptChannel(cache, APPEND, ignore, ignore, ignore)
    channel.start()
    orphans: list[Reply] = []
    first = asyncio.create_task(channel.call(("list",), ("first",), orphans.append))
    # Its own caller gone, the second answer cancels the first caller: its answer is set, and it has not run yet.
    second = asyncio.create_task(channel.call(("list",), ("second",), lambda _: first.cancel()))
    await asyncio.sleep(0)
    second.cancel()
    ended = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(one) for one in ended] == [asyncio.CancelledError] * 2
    assert orphans == [1]
    await channel.stop(1)
    await cache.aclose()


async def test_posts_survive_an_outage_and_calls_fail_at_once(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path)
    server.start()
    events: list[str] = []
    cache = cache_of(server.url())
    channel = ScriptChannel(
        cache, APPEND, lambda: events.append("lost"), lambda: events.append("recovered"), ignore
    )
    channel.start()
    try:
        await channel.call(("list",), ("before",), ignore)
        server.stop()
        channel.post(("list",), ("posted",))
        with pytest.raises(ChannelLost):
            await channel.call(("list",), ("called",), ignore)
        with pytest.raises(ChannelLost):
            await channel.call(("list",), ("called",), ignore)
        assert events == ["lost"]
        server.start()
        assert await eventually(lambda: channel.up)
        assert events == ["lost", "recovered"]
        assert await channel.call(("list",), ("after",), ignore) == 2
        assert await cache.lrange("list", 0, -1) == [b"posted", b"after"]
    finally:
        await channel.stop(1)
        await cache.aclose()
        server.stop()


async def test_waiting_posts_are_bounded_and_counted() -> None:
    dropped: list[int] = []
    cache = cache_of("redis://127.0.0.1:1/0")
    channel = ScriptChannel(cache, APPEND, ignore, ignore, lambda: dropped.append(1))
    channel.start()
    for number in range(POSTS_MAX + 50):
        channel.post(("list",), (number,))
    assert len(dropped) == 50
    await channel.stop(0.01)
    await cache.aclose()


async def test_stopping_fails_the_calls_that_wait() -> None:
    """Nobody hangs: not even when the channel ends in the middle of a round trip."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        cache = cache_of(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        channel = ScriptChannel(cache, APPEND, ignore, ignore, ignore)
        channel.start()
        call = asyncio.create_task(channel.call(("list",), ("x",), ignore))
        await asyncio.sleep(0.05)
        await channel.stop(0)
        with pytest.raises(ChannelLost):
            await call
        await cache.aclose()


async def test_a_connection_that_the_server_closed_is_made_anew_and_nothing_is_lost(cache_url: str) -> None:
    """An idle connection may be closed by the server or what is in between: that is no outage."""
    cache = cache_of(cache_url)
    events: list[str] = []
    channel = ScriptChannel(cache, APPEND, lambda: events.append("lost"), ignore, ignore)
    channel.start()
    assert await channel.call(("list",), ("first",), ignore) == 1
    await cache.client_kill_filter(_type="normal", skipme=True)
    assert await channel.call(("list",), ("second",), ignore) == 2
    assert events == []
    await channel.stop(1)
    await cache.aclose()


async def test_a_script_that_fails_fails_its_call_alone(cache_url: str) -> None:
    cache = cache_of(cache_url)
    channel = ScriptChannel(cache, APPEND, ignore, ignore, ignore)
    await cache.set("text", "no list")
    channel.start()
    calls = [channel.call((key,), ("x",), ignore) for key in ("list", "text", "list")]
    first, refused, last = await asyncio.gather(*calls, return_exceptions=True)
    assert (first, last) == (1, 2)
    assert isinstance(refused, ChannelLost)
    assert channel.up
    await channel.stop(1)
    await cache.aclose()
