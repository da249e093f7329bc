"""The limiter: asks all limits of a call at once and gives a ticket, or refuses with a 429.

Place: the pipeline's first step after the model is known; nothing else spends limits. Shared state is in the
cache (`limiter.lua` through `channel.ScriptChannel`); while the cache is away each gateway enforces its share
of the limits by itself (`local.LocalLimits`) and says so in a metric. It does not know money or engines.
"""

import asyncio
import weakref
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib.resources import files

from redis.asyncio import Redis

from gateway.clock import Clock
from gateway.errors import RateLimited
from gateway.ids import Entropy, TenantId
from gateway.limits.channel import ChannelLost, Reply, ScriptChannel
from gateway.limits.local import LocalLimits
from gateway.limits.policy import (
    Answer,
    Descriptor,
    Kind,
    LimitRequest,
    descriptors_of,
    hopeless,
    open_calls_key,
    ratelimit_headers,
    refusal,
    share,
)
from gateway.obs.metrics import Metrics
from gateway.tenancy.principal import Principal

__all__ = ["Limiter", "Ticket"]

GATEWAYS_KEY = "tw:gateways"
RENEWALS_PER_LEASE = 3
RENEW_CHUNK = 500
STOP_TIMEOUT_S = 2.0


class Ticket:
    """An admitted call. Ends once, by `correct` or `give_back`; later calls of either do nothing.

    A ticket that is dropped without an end is not renewed any more, so its concurrency lease runs out.
    """

    __slots__ = (
        "__weakref__",
        "_limiter",
        "answer",
        "descriptors",
        "id",
        "is_open",
        "local",
        "request",
        "tenant_id",
    )

    def __init__(
        self,
        limiter: "Limiter",
        id: str,
        tenant_id: TenantId,
        descriptors: tuple[Descriptor, ...],
        request: LimitRequest,
        answer: Answer,
        local: bool,
    ) -> None:
        self._limiter = limiter
        self.id = id
        self.tenant_id = tenant_id
        self.descriptors = descriptors
        self.request = request
        self.answer = answer
        self.local = local
        """Admitted while the cache was away: the cache has not counted it."""
        self.is_open = True

    @property
    def headers(self) -> Mapping[str, str]:
        """The x-ratelimit-* headers of the answer."""
        return ratelimit_headers(self.descriptors, self.answer)

    def correct(self, actual_tokens: int) -> None:
        """The call ran and used so many tokens. Never awaits."""
        self._end(actual_tokens)

    def give_back(self) -> None:
        """The call was refused before an engine saw it: as if it had never come. Never awaits."""
        self._end(None)

    def _end(self, actual_tokens: int | None) -> None:
        if self.is_open:
            self.is_open = False
            self._limiter.close_call(self, actual_tokens)


class Limiter:
    """Owns the channel task and the task that renews leases: `start()` it, `await stop()` it."""

    def __init__(
        self, cache: Redis, clock: Clock, metrics: Metrics, entropy: Entropy, lease_ttl_s: float = 30.0
    ) -> None:
        self._clock = clock
        self._metrics = metrics
        self._lease_us = int(lease_ttl_s * 1e6)
        self._process = entropy(9).hex()
        self._made = 0
        self._open: weakref.WeakValueDictionary[str, Ticket] = weakref.WeakValueDictionary()
        metrics.limiter_open_calls.set_function(lambda: len(self._open))
        self._replicas = 1
        self._local = LocalLimits(self._now_us)
        self._channel = ScriptChannel(
            cache,
            files("gateway.limits").joinpath("limiter.lua").read_text(encoding="utf-8"),
            self._on_lost,
            self._on_recovered,
            metrics.limiter_lost_corrections.inc,
        )
        self._renewer: asyncio.Task[None] | None = None

    @property
    def shared(self) -> bool:
        """Whether limits are enforced together with the other gateways."""
        return self._channel.up

    def start(self) -> None:
        self._channel.start()
        self._renewer = asyncio.create_task(self._renew_forever(), name="limiter-renew")

    async def stop(self) -> None:
        if self._renewer is not None:
            self._renewer.cancel()
            await asyncio.gather(self._renewer, return_exceptions=True)
        await self._channel.stop(STOP_TIMEOUT_S)

    async def consume(self, principal: Principal, served_model: str, request: LimitRequest) -> Ticket:
        """Takes what the call needs from every limit that concerns it, or nothing and raises the refusal."""
        descriptors = descriptors_of(principal, served_model, request.request_class)
        call = self._next_call_id()
        ticket = await self._ask(call, principal.tenant_id, descriptors, request)
        if ticket.answer.refused is not None:
            ticket.is_open = False
            raise self._refused(ticket, served_model)
        self._open[call] = ticket
        return ticket

    def close_call(self, ticket: Ticket, actual_tokens: int | None) -> None:
        """Called by the ticket, once; None gives the call back."""
        self._open.pop(ticket.id, None)
        if not ticket.descriptors:
            return
        if ticket.local:
            self._close_locally(ticket, _credits(ticket, actual_tokens, counted=True))
        elif not self.shared:  # the local buckets never saw this call, only its place among the concurrent
            self._close_locally(ticket, [0] * len(ticket.descriptors))
        if self.shared or not ticket.local:
            self._post_close(ticket, _credits(ticket, actual_tokens, counted=not ticket.local))

    async def renew(self) -> None:
        """Extends the leases of all open calls, and counts the gateways that share the limits."""
        if not self.shared:
            return
        self._post_renewals()
        try:
            alive = await self._channel.call(
                (GATEWAYS_KEY,), ("renew", self._lease_us, self._process), on_orphan=lambda _: None
            )
        except ChannelLost:
            return
        assert isinstance(alive, int)
        self._replicas = max(1, alive)
        self._metrics.limiter_replicas.set(self._replicas)

    async def _renew_forever(self) -> None:
        while True:
            await self.renew()
            await asyncio.sleep(self._lease_us / 1e6 / RENEWALS_PER_LEASE)

    async def _ask(
        self, call: str, tenant_id: TenantId, descriptors: tuple[Descriptor, ...], request: LimitRequest
    ) -> Ticket:
        def ticket(answer: Answer, local: bool) -> Ticket:
            return Ticket(self, call, tenant_id, descriptors, request, answer, local)

        if not descriptors:
            return ticket(Answer(None, 0, 0, (), ()), local=False)
        too_large = hopeless(descriptors, request)
        amounts = [descriptor.amount(request) for descriptor in descriptors]
        keys = (open_calls_key(tenant_id), *(descriptor.key for descriptor in descriptors))
        op = "consume" if too_large is None else "peek"
        try:
            reply = await self._channel.call(
                keys,
                (op, self._lease_us, call, *_script_args(descriptors, amounts, 0)),
                on_orphan=lambda reply: ticket(_answer(reply, too_large), local=False).give_back(),
            )
        except ChannelLost:
            return ticket(self._ask_locally(call, descriptors, amounts, too_large), local=True)
        return ticket(_answer(reply, too_large), local=False)

    def _ask_locally(
        self, call: str, descriptors: Sequence[Descriptor], amounts: Sequence[int], too_large: int | None
    ) -> Answer:
        parts = self._parts(descriptors)
        if too_large is not None:
            return self._local.peek(parts, too_large)
        return self._local.consume(call, parts, amounts)

    def _close_locally(self, ticket: Ticket, credits: Sequence[int]) -> None:
        self._local.close(ticket.id, self._parts(ticket.descriptors), credits, ticket.answer.day)

    def _parts(self, descriptors: Sequence[Descriptor]) -> list[Descriptor]:
        return [share(descriptor, self._replicas) for descriptor in descriptors]

    def _refused(self, ticket: Ticket, served_model: str) -> RateLimited:
        assert ticket.answer.refused is not None
        descriptor = ticket.descriptors[ticket.answer.refused]
        self._metrics.limit_refusals.labels(limit=descriptor.metric_name, scope=descriptor.scope).inc()
        return refusal(ticket.descriptors, ticket.answer, ticket.request, served_model)

    def _post_close(self, ticket: Ticket, credits: Sequence[int]) -> None:
        keys = (open_calls_key(ticket.tenant_id), *(descriptor.key for descriptor in ticket.descriptors))
        args = _script_args(ticket.descriptors, credits, ticket.answer.day)
        self._channel.post(keys, ("close", self._lease_us, ticket.id, *args))

    def _post_renewals(self) -> None:
        calls: defaultdict[str, list[str]] = defaultdict(list)
        for ticket in self._open.values():
            if ticket.descriptors:
                calls[open_calls_key(ticket.tenant_id)].append(ticket.id)
            for descriptor in ticket.descriptors:
                if descriptor.kind is Kind.CONCURRENT:
                    calls[descriptor.key].append(ticket.id)
        for key, ids in calls.items():
            for start in range(0, len(ids), RENEW_CHUNK):
                self._channel.post((key,), ("renew", self._lease_us, *ids[start : start + RENEW_CHUNK]))

    def _on_lost(self) -> None:
        self._metrics.limiter_local.set(1)
        self._metrics.limiter_cache_failures.inc()
        self._local = LocalLimits(self._now_us)
        for ticket in self._open.values():
            self._local.adopt(ticket.id, ticket.descriptors)

    def _on_recovered(self) -> None:
        self._metrics.limiter_local.set(0)
        self._post_renewals()  # also gives a cache that lost its memory the leases back

    def _next_call_id(self) -> str:
        self._made += 1
        return f"{self._process}-{self._made:x}"

    def _now_us(self) -> int:
        return int(self._clock.now().timestamp() * 1e6)


def _credits(ticket: Ticket, actual_tokens: int | None, counted: bool) -> list[int]:
    """What each descriptor gets back. `counted`: the state that is credited has seen the estimate."""
    if actual_tokens is None:
        return [d.amount(ticket.request) if counted else 0 for d in ticket.descriptors]
    estimated = ticket.request.estimated_tokens if counted else 0
    return [estimated - actual_tokens if d.kind is Kind.TOKENS else 0 for d in ticket.descriptors]


def _script_args(
    descriptors: Sequence[Descriptor], amounts: Sequence[int], day: int
) -> list[str | int | float]:
    args: list[str | int | float] = []
    for descriptor, amount in zip(descriptors, amounts, strict=True):
        args += (descriptor.kind.value, descriptor.size, repr(descriptor.rate_per_us), amount, day)
    return args


def _answer(reply: Reply, too_large: int | None) -> Answer:
    assert isinstance(reply, list)
    refused, wait_us, day, *states = reply
    index = too_large if too_large is not None else (refused - 1 if refused else None)
    return Answer(index, wait_us, day, tuple(states[::2]), tuple(states[1::2]))
