"""The local limits agree with the script, and take over while the cache is away."""

import asyncio
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import RateLimited
from gateway.limits import Limiter, LimitRequest, Ticket
from gateway.limits.limiter import _credits
from gateway.limits.local import DAY_US, KEYS_MAX, LocalLimits
from gateway.limits.policy import Kind, descriptors_of, share
from gateway.local.valkey import EmbeddedValkey
from gateway.obs.metrics import Metrics
from gateway.tenancy.principal import LimitSet
from tests.fakes.network import cable_to
from tests.gateway.limits.support import (
    MODEL,
    ONE,
    admitted,
    advance,
    cache_of,
    eventually,
    limiter_on,
    principal,
    settled,
)


@pytest.mark.parametrize("seed", range(8))
async def test_script_and_local_limits_agree(cache_url: str, seed: int) -> None:
    """The local limits are asked at the very microsecond at which the script answered."""
    print(f"seed {seed}")
    choose = random.Random(seed)
    who = principal(
        LimitSet(requests_per_min=60, requests_burst=4, requests_per_day=60, concurrent_requests=5),
        key=LimitSet(tokens_per_min=60),
    )
    descriptors = descriptors_of(who, MODEL)
    buckets = [d.key for d in descriptors if d.kind in (Kind.REQUESTS, Kind.TOKENS)]
    cache, shift_us, now_us = cache_of(cache_url), 0, 0
    local = LocalLimits(lambda: now_us)
    calls: list[tuple[str, Ticket, LimitRequest]] = []

    async def server_us() -> int:
        seconds, micros = await cache.time()
        return seconds * 1_000_000 + micros

    async def last_write_us() -> int:
        return max([int(await cache.hget(key, "at") or 0) for key in buckets])

    async with limiter_on(cache_url) as limiter:
        for number in range(120):
            before_us, action = await server_us(), choose.random()
            if action < 0.5:
                request = LimitRequest(choose.randint(1, 30))
                ticket = await admitted(limiter, who, request)
                # Refused at some moment since `before_us`, therefore refused then too: limits only refill.
                now_us = (await last_write_us() if ticket else before_us) + shift_us
                answer = local.consume(str(number), descriptors, [d.amount(request) for d in descriptors])
                assert (ticket is None) == (answer.refused is not None)
                if ticket:
                    assert ticket.answer.levels == answer.levels
                    assert ticket.answer.resets_us[3] == answer.resets_us[3]
                    calls.append((str(number), ticket, request))
            elif action < 0.75 and calls:
                name, ticket, request = calls.pop(choose.randrange(len(calls)))
                actual = choose.choice([None, 1, 20, 40])
                ticket.give_back() if actual is None else ticket.correct(actual)
                await settled(limiter)
                now_us = await last_write_us() + shift_us
                local.close(name, descriptors, _credits(ticket, actual, counted=True), now_us // DAY_US)
            else:
                step_us = choose.randint(0, 3_000_000)
                await advance(cache_url, step_us / 1e6)
                await limiter.renew()
                shift_us += step_us
    await cache.aclose()


@given(
    limit=st.integers(1, 200),
    burst=st.integers(1, 50),
    gaps_ms=st.lists(st.integers(0, 4000), min_size=1, max_size=300),
)
def test_no_window_holds_more_than_limit_and_burst(limit: int, burst: int, gaps_ms: list[int]) -> None:
    """Duty D25: no window of 60 s holds more than limit and burst, at its edges neither."""
    now_us = 0
    local = LocalLimits(lambda: now_us)
    descriptors = descriptors_of(principal(LimitSet(requests_per_min=limit, requests_burst=burst)), MODEL)
    times: list[int] = []
    for number, gap_ms in enumerate(gaps_ms):
        now_us += gap_ms * 1000
        if local.consume(str(number), descriptors, [1]).refused is None:
            times.append(now_us)
    for start in times:
        assert sum(start <= time < start + 60_000_000 for time in times) <= limit + burst


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 600)), min_size=1, max_size=100))
def test_tokens_of_a_window_exceed_limit_and_burst_by_one_call_at_most(calls: list[tuple[int, int]]) -> None:
    now_us = 0
    local = LocalLimits(lambda: now_us)
    descriptors = descriptors_of(principal(LimitSet(tokens_per_min=600)), MODEL)
    admitted_calls: list[tuple[int, int]] = []
    for number, (gap_ms, tokens) in enumerate(calls):
        now_us += gap_ms * 1000
        if local.consume(str(number), descriptors, [tokens]).refused is None:
            admitted_calls.append((now_us, tokens))
    for start, _ in admitted_calls:
        window = [tokens for time, tokens in admitted_calls if start <= time < start + 60_000_000]
        assert sum(window) <= 600 + 60 + window[-1]


def test_state_is_bounded() -> None:
    local = LocalLimits(lambda: 0)
    for number in range(KEYS_MAX + 100):
        who = principal(LimitSet(requests_per_min=60), tenant_id=f"proj_{number}")
        local.consume("c", descriptors_of(who, MODEL), [1])
    assert len(local._states) == KEYS_MAX


def test_day_begins_at_midnight_utc() -> None:
    now = DAY_US - 1
    local = LocalLimits(lambda: now)
    descriptors = descriptors_of(principal(LimitSet(requests_per_day=1)), MODEL)
    assert local.consume("a", descriptors, [1]).refused is None
    refused = local.consume("b", descriptors, [1])
    assert (refused.refused, refused.wait_us) == (0, 1)
    now = DAY_US
    assert local.consume("c", descriptors, [1]).refused is None


@pytest.mark.parametrize("replicas", [1, 2, 3, 10])
def test_share_never_admits_more_in_all_than_the_limit_and_one_burst_each(replicas: int) -> None:
    descriptors = descriptors_of(principal(LimitSet(requests_per_min=600, concurrent_requests=100)), MODEL)
    parts = [share(descriptor, replicas) for descriptor in descriptors]
    assert parts[0].size * replicas <= 100
    assert parts[1].size * replicas <= 60
    assert parts[1].rate_per_us * replicas == pytest.approx(descriptors[1].rate_per_us)


def test_share_leaves_at_least_one() -> None:
    descriptors = descriptors_of(principal(LimitSet(requests_per_min=1, concurrent_requests=1)), MODEL)
    assert [share(descriptor, 5).size for descriptor in descriptors] == [1, 1]


async def test_cache_killed_then_local_limits_then_shared_again(tmp_path: Path) -> None:
    """Duty C21: without the cache limits go on locally, and shared again without a restart."""
    server = EmbeddedValkey(tmp_path)
    server.start()
    metrics = Metrics()
    tenant = LimitSet(requests_per_min=60, requests_burst=20, concurrent_requests=30)
    try:
        async with limiter_on(server.url(), metrics=metrics) as limiter, limiter_on(server.url()) as other:
            await other.renew()
            await limiter.renew()  # both know of each other now
            kept = [await limiter.consume(principal(tenant), MODEL, ONE) for _ in range(3)]
            server.stop()
            fresh = principal(LimitSet(requests_per_min=1, requests_burst=20), tenant_id="proj_b")
            passed = sum([bool(await admitted(limiter, fresh)) for _ in range(40)])
            assert passed == 10  # half of the burst: one of two gateways
            assert "tollway_limiter_local 1.0" in metrics.render().decode()
            assert "tollway_limiter_cache_failures_total 1.0" in metrics.render().decode()
            server.start()
            assert await eventually(lambda: limiter.shared and other.shared)
            assert "tollway_limiter_local 0.0" in metrics.render().decode()
            await _the_leases_are_back(limiter, other, tenant, kept)
    finally:
        server.stop()


async def _the_leases_are_back(
    limiter: Limiter, other: Limiter, tenant: LimitSet, kept: list[Ticket]
) -> None:
    """The new cache has an empty memory, and knows the calls that were open before it started."""
    await settled(limiter)
    ticket = await other.consume(principal(tenant), MODEL, ONE)
    assert ticket.answer.levels[0] == 30 - len(kept) - 1
    for one in kept:
        one.correct(1)
    await settled(limiter)
    ticket = await other.consume(principal(tenant), MODEL, ONE)
    assert ticket.answer.levels[0] == 30 - 2


async def test_concurrency_stays_limited_through_the_outage(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path)
    server.start()
    who = principal(LimitSet(concurrent_requests=4, tokens_per_min=600))
    try:
        async with limiter_on(server.url()) as limiter:
            before = [await limiter.consume(who, MODEL, ONE) for _ in range(2)]
            server.stop()
            during = [await limiter.consume(who, MODEL, ONE) for _ in range(2)]
            with pytest.raises(RateLimited, match="concurrent"):
                await limiter.consume(who, MODEL, ONE)
            assert [ticket.local for ticket in during] == [True, True]
            before[0].correct(5)
            during[0].give_back()
            during[0] = await limiter.consume(who, MODEL, ONE)
            server.start()
            assert await eventually(lambda: limiter.shared)
            # Open before and during the outage: three in all, and each end frees one slot.
            last = await limiter.consume(who, MODEL, ONE)
            assert last.answer.levels[0] == 0
            for ticket in (before[1], *during):
                ticket.correct(10)
            await settled(limiter)
            assert (await limiter.consume(who, MODEL, ONE)).answer.levels[0] == 2
    finally:
        server.stop()


async def test_silent_cache_is_given_up_after_its_timeout(cache_url: str) -> None:
    async with cable_to(cache_url) as (cable, url), limiter_on(url, timeout_s=0.3) as limiter:
        who = principal(LimitSet(requests_per_min=60))
        assert await admitted(limiter, who)
        cable.silence()
        async with asyncio.timeout(60):
            ticket = await limiter.consume(who, MODEL, ONE)
        assert ticket.local
        assert not limiter.shared


async def test_local_call_owes_its_tokens_to_the_shared_bucket(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path)
    who = principal(LimitSet(tokens_per_min=6000))
    server.start()
    try:
        async with limiter_on(server.url()) as limiter:
            server.stop()
            ticket = await limiter.consume(who, MODEL, LimitRequest(5000))
            server.start()
            assert await eventually(lambda: limiter.shared)
            ticket.correct(30_000)
            await settled(limiter)
            with pytest.raises(
                RateLimited, match=r"Used 3[0-5]\d\d\d"
            ):  # 6000 − (600 − 30,000), less what refills
                await limiter.consume(who, MODEL, ONE)
    finally:
        server.stop()
