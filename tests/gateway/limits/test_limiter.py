"""The limiter on a real Valkey: sharing, all-or-nothing, debt, leases, and once-only ends."""

import asyncio
import gc
import random

import pytest

from gateway.clock import SystemClock
from gateway.errors import RateLimited
from gateway.limits import Limiter, LimitRequest
from gateway.limits.channel import PROBE_INTERVAL_S
from gateway.limits.policy import descriptors_of
from gateway.obs.metrics import Metrics
from gateway.tenancy.principal import LimitSet
from tests.gateway.limits.support import (
    MODEL,
    NONE,
    ONE,
    admitted,
    advance,
    cache_of,
    cache_seconds,
    eventually,
    limiter_on,
    principal,
    settled,
)


@pytest.mark.parametrize("seed", range(6))
async def test_two_limiters_share_one_limit_in_every_window(cache_url: str, seed: int) -> None:
    """Duty D24: two replicas, one limit: together they admit what it says."""
    print(f"seed {seed}")
    choose = random.Random(seed)
    limit, burst = choose.choice([(60, 6), (30, 1), (120, 30)])
    who = principal(LimitSet(requests_per_min=limit, requests_burst=burst))
    times: list[tuple[float, float]] = []
    shift = 0.0
    cache = cache_of(cache_url)

    async def now() -> float:
        seconds, micros = await cache.time()
        return float(seconds + micros / 1e6 + shift)

    async with limiter_on(cache_url) as first, limiter_on(cache_url) as second:
        while shift < 150:
            for _ in range(choose.randint(1, burst + 3)):
                before = await now()
                if await admitted(choose.choice([first, second]), who):
                    times.append((before, await now()))
            step = choose.choice([0.1, 0.5, 1.0, 2.0] * 5 + [10.0]) * 60 / limit
            await advance(cache_url, step)
            shift += step
    await cache.aclose()
    assert len(times) > limit + burst  # enough for more than one window
    for number, (start, _) in enumerate(times):
        # Each was admitted between the two times: those that were for certain within a minute.
        assert sum(end < start + 60 for _, end in times[number:]) <= limit + burst


async def test_steady_callers_get_the_whole_limit(cache_url: str) -> None:
    who = principal(LimitSet(requests_per_min=60, requests_burst=5))
    passed = 0
    cache = cache_of(cache_url)
    began, _ = await cache.time()
    async with limiter_on(cache_url) as limiter:
        for _ in range(120):
            passed += bool(await admitted(limiter, who))
            await advance(cache_url, 0.5)
    ended, _ = await cache.time()
    await cache.aclose()
    assert 60 <= passed <= 60 + 5 + (ended - began + 1)  # the test's own time refills too


async def test_refused_by_one_consumes_none_of_the_others(cache_url: str) -> None:
    """Duty D26: a request refused by one descriptor consumes none of the others."""
    tenant = LimitSet(requests_per_min=1, requests_burst=30, requests_per_day=100, concurrent_requests=50)
    roomy, tight = principal(tenant), principal(tenant, key=LimitSet(requests_per_min=1, requests_burst=1))
    async with limiter_on(cache_url) as limiter:
        assert await admitted(limiter, tight)
        before = (await limiter.consume(roomy, MODEL, ONE)).answer.levels
        for _ in range(20):
            with pytest.raises(RateLimited):
                await limiter.consume(tight, MODEL, ONE)
        after = (await limiter.consume(roomy, MODEL, ONE)).answer.levels
    assert [b - a for b, a in zip(before, after, strict=True)] == [1, 1, 1]


async def test_refused_by_concurrency_burns_no_request(cache_url: str) -> None:
    """Duty D26: a request refused by concurrency burns no request."""
    who = principal(LimitSet(requests_per_day=100, concurrent_requests=1))
    async with limiter_on(cache_url) as limiter:
        ticket = await limiter.consume(who, MODEL, ONE)
        for _ in range(5):
            with pytest.raises(
                RateLimited, match="concurrent requests: Limit 1, Used 1, Requested 1"
            ) as caught:
                await limiter.consume(who, MODEL, ONE)
            assert caught.value.response_headers()["retry-after"] == "1"
        ticket.correct(1)
        await settled(limiter)
        assert (await limiter.consume(who, MODEL, ONE)).answer.levels == (0, 98)


async def test_tokens_go_into_debt_and_repay(cache_url: str) -> None:
    who = principal(LimitSet(tokens_per_min=6000))  # 100 per second, 600 at once
    async with limiter_on(cache_url) as limiter:
        ticket = await limiter.consume(who, MODEL, LimitRequest(6000))
        assert ticket.headers["x-ratelimit-remaining-tokens"] == "0"
        ticket.correct(60_600)  # 10 minutes' worth more than there was
        with pytest.raises(RateLimited, match=r"Limit 6000, Used 6[3-6]\d\d\d, Requested 10") as caught:
            await limiter.consume(who, MODEL, LimitRequest(10))
        assert caught.value.type == "tokens"
        assert caught.value.retry_after_s == pytest.approx(570, abs=35)
        await advance(cache_url, 530)
        assert await admitted(limiter, who, LimitRequest(10)) is None
        await advance(cache_url, 75)
        assert await admitted(limiter, who, LimitRequest(10))


async def test_estimate_is_corrected_to_the_actual_once(cache_url: str) -> None:
    who = principal(LimitSet(tokens_per_min=60_000, concurrent_requests=10))  # 1000 per s, 6000 at once
    began = await cache_seconds(cache_url)
    async with limiter_on(cache_url) as limiter:
        ticket = await limiter.consume(who, MODEL, LimitRequest(6000))
        for _ in range(3):
            ticket.correct(3000)
            ticket.give_back()
        await settled(limiter)
        level = (await limiter.consume(who, MODEL, ONE)).answer.levels[1]
    # A second correction would make it 5,999 at once; so does the time of a machine that stalls.
    assert 2999 <= level <= min(5999, 3000 + 1000 * (await cache_seconds(cache_url) - began))


async def test_underestimate_is_charged(cache_url: str) -> None:
    who = principal(LimitSet(tokens_per_min=6000))
    async with limiter_on(cache_url) as limiter:
        (await limiter.consume(who, MODEL, ONE)).correct(50_000)
        await settled(limiter)
        with pytest.raises(
            RateLimited, match=r"Used 5[0-5]\d\d\d"
        ):  # 6000 − (600 − 50,000), less what refills
            await limiter.consume(who, MODEL, ONE)


async def test_give_back_returns_requests_day_tokens_and_slot_once(cache_url: str) -> None:
    limits = LimitSet(requests_per_min=1, requests_burst=10, requests_per_day=50, tokens_per_min=10)
    who = principal(limits, key=LimitSet(concurrent_requests=5))
    async with limiter_on(cache_url) as limiter:
        tickets = [await limiter.consume(who, MODEL, NONE) for _ in range(4)]
        rpm, day, _tokens, slots = tickets[-1].answer.levels
        assert (rpm, day, slots) == (6, 46, 1)
        for ticket in tickets[:3]:
            ticket.give_back()
            ticket.give_back()
            ticket.correct(1)
        await settled(limiter)
        after = await limiter.consume(who, MODEL, NONE)
    assert after.answer.levels == (8, 48, 1, 3)  # 10, 50 and 5, less two calls


async def test_give_back_returns_the_estimate(cache_url: str) -> None:
    who = principal(LimitSet(tokens_per_min=6000))
    async with limiter_on(cache_url) as limiter:
        (await limiter.consume(who, MODEL, LimitRequest(6000))).give_back()
        await settled(limiter)
        assert (await limiter.consume(who, MODEL, NONE)).answer.levels == (600,)


async def test_the_same_end_sent_twice_counts_once(cache_url: str) -> None:
    """A connection that breaks after the server executed a command makes the client send it again."""
    who = principal(LimitSet(requests_per_day=50))
    async with limiter_on(cache_url) as limiter:
        kept = [await limiter.consume(who, MODEL, ONE) for _ in range(3)]
        ticket = await limiter.consume(who, MODEL, ONE)
        ticket.give_back()
        limiter.close_call(ticket, None)
        limiter.close_call(ticket, None)
        await settled(limiter)
        assert (await limiter.consume(who, MODEL, ONE)).answer.levels == (46,)
    assert kept


async def test_day_ends_at_midnight_and_nothing_returns_to_another_day(cache_url: str) -> None:
    who = principal(LimitSet(requests_per_day=2))
    async with limiter_on(cache_url) as limiter:
        early = await limiter.consume(who, MODEL, ONE)
        assert await admitted(limiter, who)
        with pytest.raises(RateLimited, match=r"requests per day \(RPD\): Limit 2, Used 2") as caught:
            await limiter.consume(who, MODEL, ONE)
        assert 0 < (caught.value.retry_after_s or 0) <= 86_400
        await advance(cache_url, 86_400)
        await limiter.renew()  # the calls are still open
        assert await admitted(limiter, who)
        early.answer = type(early.answer)(None, 0, early.answer.day - 1, early.answer.levels, (0,))
        early.give_back()
        await settled(limiter)
        assert await admitted(limiter, who)
        assert await admitted(limiter, who) is None


async def test_slots_of_a_killed_gateway_come_back_with_the_lease(cache_url: str) -> None:
    """Duty D27: after kill -9 of a gateway its slots return within the lease."""
    who = principal(LimitSet(concurrent_requests=2))
    async with limiter_on(cache_url, lease_ttl_s=300.0) as survivor:
        async with limiter_on(cache_url, lease_ttl_s=300.0) as killed:
            lost = [await killed.consume(who, MODEL, ONE) for _ in range(2)]
        assert await admitted(survivor, who) is None
        await advance(cache_url, 200)
        assert await admitted(survivor, who) is None
        await advance(cache_url, 101)
        assert await admitted(survivor, who)
    assert lost


async def test_slots_of_a_living_gateway_are_renewed(cache_url: str) -> None:
    who = principal(LimitSet(concurrent_requests=1))
    async with limiter_on(cache_url, lease_ttl_s=300.0) as limiter:
        ticket = await limiter.consume(who, MODEL, ONE)
        for _ in range(5):
            await advance(cache_url, 200)
            await limiter.renew()
        assert await admitted(limiter, who) is None
        ticket.correct(1)
        await settled(limiter)
        assert await admitted(limiter, who)


async def test_renewal_needs_no_help(cache_url: str) -> None:
    who = principal(LimitSet(concurrent_requests=1))
    cache = cache_of(cache_url)

    async def ends_at() -> float:
        [(_, score)] = await cache.zrange(descriptors_of(who, MODEL)[0].key, 0, -1, withscores=True)
        return float(score)

    async with limiter_on(cache_url, lease_ttl_s=3.0) as limiter:
        ticket = await limiter.consume(who, MODEL, ONE)
        first = await ends_at()
        async with asyncio.timeout(60):
            while await ends_at() < first + 2e6:  # noqa: ASYNC110  # time has to pass
                await asyncio.sleep(0.05)
        await advance(cache_url, -3600)  # what was renewed holds, however long the next question takes
        assert await admitted(limiter, who) is None
        ticket.correct(1)
    await cache.aclose()


async def test_a_ticket_that_was_dropped_is_not_renewed(cache_url: str) -> None:
    who = principal(LimitSet(concurrent_requests=1))
    async with limiter_on(cache_url) as limiter:
        await limiter.consume(who, MODEL, ONE)
        gc.collect()
        await advance(cache_url, 31)
        await limiter.renew()
        assert await admitted(limiter, who)


async def test_larger_than_the_whole_limit_is_hopeless_and_costs_nothing(cache_url: str) -> None:
    who = principal(LimitSet(tokens_per_min=1000, requests_per_day=10))
    async with limiter_on(cache_url) as limiter:
        with pytest.raises(RateLimited, match="Limit 1000, Used 900, Requested 1001") as caught:
            await limiter.consume(who, MODEL, LimitRequest(1001))
        headers = caught.value.response_headers()
        assert headers["x-should-retry"] == "false"
        assert "retry-after" not in headers
        assert headers["x-ratelimit-limit-tokens"] == "1000"
        assert (await limiter.consume(who, MODEL, ONE)).answer.levels == (9, 99)


async def test_zero_means_nothing_passes(cache_url: str) -> None:
    async with limiter_on(cache_url) as limiter:
        for limits in (LimitSet(requests_per_min=0), LimitSet(concurrent_requests=0)):
            with pytest.raises(RateLimited) as caught:
                await limiter.consume(principal(limits), MODEL, ONE)
            assert not caught.value.retryable


async def test_no_limits_need_no_cache() -> None:
    async with limiter_on("redis://127.0.0.1:1/0") as limiter:
        ticket = await limiter.consume(principal(), MODEL, ONE)
        assert ticket.headers == {}
        ticket.correct(5)


async def test_tenants_and_models_do_not_share(cache_url: str) -> None:
    limits = LimitSet(requests_per_min=1)
    async with limiter_on(cache_url) as limiter:
        assert await admitted(limiter, principal(limits))
        assert await admitted(limiter, principal(limits)) is None
        assert await admitted(limiter, principal(limits, tenant_id="proj_b"))
        other = principal(model=limits, tenant_id="proj_c")
        assert await admitted(limiter, other)
        assert await admitted(limiter, other) is None
        assert await limiter.consume(other, "another", ONE)


async def test_caller_cancelled_under_way_leaves_nothing_behind(cache_url: str) -> None:
    who = principal(LimitSet(requests_per_day=100, concurrent_requests=50))
    async with limiter_on(cache_url) as limiter:
        for delay in range(12):  # cancelled before, while and after the round trip
            task = asyncio.create_task(limiter.consume(who, MODEL, ONE))
            for _ in range(delay):
                await asyncio.sleep(0)
            task.cancel()
            ended = await asyncio.gather(task, return_exceptions=True)
            if not isinstance(ended[0], BaseException):
                ended[0].give_back()
        await settled(limiter)
        await settled(limiter)
        assert (await limiter.consume(who, MODEL, ONE)).answer.levels == (49, 99)


async def test_many_at_once_never_exceed_concurrency(cache_url: str) -> None:
    who = principal(LimitSet(concurrent_requests=7))
    async with limiter_on(cache_url) as first, limiter_on(cache_url) as second:
        tickets = await asyncio.gather(*(admitted(choice, who) for choice in [first, second] * 100))
    assert sum(ticket is not None for ticket in tickets) == 7


async def test_flushed_scripts_are_loaded_again(cache_url: str) -> None:
    who = principal(LimitSet(requests_per_day=100))
    cache = cache_of(cache_url)
    async with limiter_on(cache_url) as limiter:
        assert await admitted(limiter, who)
        await cache.script_flush()
        tickets = await asyncio.gather(*(admitted(limiter, who) for _ in range(20)))
        assert all(ticket is not None and not ticket.local for ticket in tickets)
        assert (await limiter.consume(who, MODEL, ONE)).answer.levels == (78,)
    await cache.aclose()


async def test_an_operation_that_the_cache_refuses_is_decided_locally(cache_url: str) -> None:
    who = principal(LimitSet(requests_per_min=1, requests_burst=6))
    cache = cache_of(cache_url)
    await cache.set("tw:{proj_a}:rpm:t", "not a hash")
    async with limiter_on(cache_url) as limiter:
        assert sum([bool(await admitted(limiter, who)) for _ in range(10)]) == 6
        assert await admitted(limiter, principal(LimitSet(requests_per_min=60), tenant_id="proj_b"))
        assert limiter.shared
    await cache.aclose()


async def test_gateways_count_each_other(cache_url: str) -> None:
    metrics = Metrics()
    async with limiter_on(cache_url, metrics=metrics) as first, limiter_on(cache_url) as second:
        await second.renew()
        await first.renew()
        assert "tollway_limiter_replicas 2.0" in metrics.render().decode()


async def test_refusals_are_counted_by_limit_and_scope(cache_url: str) -> None:
    metrics = Metrics()
    async with limiter_on(cache_url, metrics=metrics) as limiter:
        who = principal(key=LimitSet(requests_per_min=1))
        assert await admitted(limiter, who)
        assert await admitted(limiter, who) is None
    assert 'tollway_limit_refusals_total{limit="rpm",scope="key"} 1.0' in metrics.render().decode()


async def test_headers_name_the_tightest_limit(cache_url: str) -> None:
    who = principal(
        LimitSet(requests_per_min=6000, tokens_per_min=60_000),
        key=LimitSet(requests_per_min=60, requests_burst=10),
    )
    async with limiter_on(cache_url) as limiter:
        ticket = await limiter.consume(who, MODEL, LimitRequest(1000))
    assert ticket.headers == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "9",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "60000",
        "x-ratelimit-remaining-tokens": "5000",
        "x-ratelimit-reset-tokens": "1s",
    }


async def test_stop_sends_what_was_posted(cache_url: str) -> None:
    who = principal(LimitSet(requests_per_day=100))
    async with limiter_on(cache_url) as stopped:
        for _ in range(50):
            (await stopped.consume(who, MODEL, ONE)).give_back()
    async with limiter_on(cache_url) as limiter:
        assert (await limiter.consume(who, MODEL, ONE)).answer.levels == (99,)


async def test_unstarted_limiter_is_local_and_ends_a_call_once_there_too(cache_url: str) -> None:
    cache = cache_of(cache_url)
    limiter = Limiter(cache, SystemClock(), Metrics(), bytes)
    who = principal(LimitSet(requests_per_day=10))
    tickets = [await limiter.consume(who, MODEL, ONE) for _ in range(4)]
    assert not limiter.shared
    for _ in range(3):
        tickets[0].give_back()
    assert (await limiter.consume(who, MODEL, ONE)).answer.levels == (6,)
    await cache.aclose()


async def test_a_channel_that_dies_is_an_outage_that_ends(cache_url: str) -> None:
    """By what nobody foresaw: here a connection that cannot even be made."""
    cache = cache_of(cache_url)
    metrics = Metrics()
    options = cache.connection_pool.connection_kwargs
    options["ssl_ca_certs"] = "ca.pem"  # a connection without TLS does not know it, and raises a TypeError
    limiter = Limiter(cache, SystemClock(), metrics, bytes)
    limiter.start()
    who = principal(LimitSet(requests_per_day=10))
    ticket = await limiter.consume(who, MODEL, ONE)
    assert ticket.local
    assert not limiter.shared
    assert "tollway_limiter_local 1.0" in metrics.render().decode()
    await asyncio.sleep(PROBE_INTERVAL_S * 2.5)  # it dies again at each probe
    assert "tollway_limiter_cache_failures_total 1.0" in metrics.render().decode()
    del options["ssl_ca_certs"]
    assert await eventually(lambda: limiter.shared)
    assert "tollway_limiter_local 0.0" in metrics.render().decode()
    assert not (await limiter.consume(who, MODEL, ONE)).local
    await limiter.stop()
    assert not limiter.shared
    await cache.aclose()
