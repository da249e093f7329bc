"""Limiters on a real Valkey, and its time moved by hand.

The script takes its time from the server only. Tests move time by making all stored state older instead:
to the script, state that is 60 s older and a clock that is 60 s later are the same thing.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from redis.asyncio import Redis

from gateway.cache import create_cache
from gateway.clock import SystemClock
from gateway.errors import RateLimited
from gateway.ids import KeyId, TenantId
from gateway.limits import Limiter, LimitRequest, Ticket
from gateway.obs.metrics import Metrics
from gateway.tenancy.principal import LimitSet, Principal, ScopedLimits
from tests.patience import LONG_S, patient_cache

MODEL = "tiny"
ONE = LimitRequest(estimated_tokens=1)
NONE = LimitRequest(estimated_tokens=0)


def principal(
    tenant: LimitSet | None = None,
    *,
    key: LimitSet | None = None,
    model: LimitSet | None = None,
    tenant_id: str = "proj_a",
    key_id: str = "key_a",
) -> Principal:
    rows = (
        (None, None, tenant),
        (KeyId(key_id), None, key),
        (None, MODEL, model),
    )
    return Principal(
        TenantId(tenant_id),
        KeyId(key_id),
        frozenset({"model.request"}),
        limits=tuple(ScopedLimits(k, m, limits) for k, m, limits in rows if limits is not None),
    )


def cache_of(url: str, timeout_s: float = LONG_S) -> Redis:
    """Patient, since a busy machine must not look like a cache that is away."""
    return create_cache(patient_cache(url).model_copy(update={"timeout_s": timeout_s}))


@asynccontextmanager
async def limiter_on(
    url: str, *, metrics: Metrics | None = None, lease_ttl_s: float = 30.0, timeout_s: float = LONG_S
) -> AsyncIterator[Limiter]:
    cache = cache_of(url, timeout_s)
    limiter = Limiter(cache, SystemClock(), metrics or Metrics(), os.urandom, lease_ttl_s)
    limiter.start()
    try:
        yield limiter
    finally:
        await limiter.stop()
        await cache.aclose()


async def admitted(limiter: Limiter, who: Principal, request: LimitRequest = ONE) -> Ticket | None:
    try:
        return await limiter.consume(who, MODEL, request)
    except RateLimited:
        return None


async def settled(limiter: Limiter) -> None:
    """Until everything that was posted is in the cache: the channel is a queue, a call comes after it."""
    await limiter.renew()


async def advance(url: str, seconds: float) -> None:
    """Makes the limiter's state older; whole days only move day counters."""
    cache = cache_of(url)
    await cache.eval(_AGE, 0, f"{seconds * 1e6:.0f}", int(seconds // 86_400))
    await cache.aclose()


async def cache_seconds(url: str) -> float:
    """The time by which the script refills."""
    cache = cache_of(url)
    seconds, micros = await cache.time()
    await cache.aclose()
    return float(seconds + micros / 1e6)


async def eventually(condition: Callable[[], bool], within_s: float = 60) -> bool:
    """Whether the condition becomes true in time."""
    for _ in range(int(within_s / 0.02)):
        if condition():
            return True
        await asyncio.sleep(0.02)
    return False


_AGE = """
for _, key in ipairs(redis.call('KEYS', 'tw:*')) do
  if redis.call('TYPE', key).ok == 'zset' then
    local leases = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    for i = 1, #leases, 2 do
      redis.call('ZADD', key, string.format('%.0f', tonumber(leases[i + 1]) - ARGV[1]), leases[i])
    end
  elseif redis.call('HEXISTS', key, 'at') == 1 then
    redis.call('HSET', key, 'at', string.format('%.0f', tonumber(redis.call('HGET', key, 'at')) - ARGV[1]))
  elseif redis.call('HEXISTS', key, 'day') == 1 then
    redis.call('HSET', key, 'day', string.format('%.0f', redis.call('HGET', key, 'day') - ARGV[2]))
  end
end
"""
