"""Stripe's meter event endpoint, as far as its documentation says what it does: form fields, a secret key, identifiers
that are taken once, idempotency keys that give the first answer again, limits of age, and trouble on demand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType

from aiohttp import web

__all__ = ["KEY", "FakeStripe"]

KEY = "sk_test_of_the_tests"
AGE_MAX_S = 35 * 86_400


@dataclass
class FakeStripe:
    """`now` is its clock, in Unix seconds. `trouble` answers in its place for as many calls as it has entries: a
    response, or None for a connection that ends without one after the event was taken."""

    now: Callable[[], int]
    trouble: list[web.Response | None] = field(default_factory=list)
    forgets: bool = False
    """Identifiers and keys are not recognised any more, as after 24 hours."""
    url: str = ""
    events: dict[str, dict[str, str]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    """What each customer's meter sums up to."""
    calls: int = 0
    most_at_once: int = 0
    _answers: dict[str, tuple[int, dict[str, object]]] = field(default_factory=dict)
    _busy: dict[str, int] = field(default_factory=dict)
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> FakeStripe:
        app = web.Application()
        app.router.add_post("/v1/billing/meter_events", self._create)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _create(self, request: web.Request) -> web.StreamResponse:
        self.calls += 1
        fields = {name: str(value) for name, value in (await request.post()).items()}
        customer = fields.get("payload[stripe_customer_id]", "")
        return await self._one_at_a_time(customer, lambda: self._answer(request, fields))

    async def _one_at_a_time(
        self, customer: str, answer: Callable[[], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if self._busy.get(customer):
            return _error(429, "lock_timeout", "one concurrent call per customer and meter")
        self._busy[customer] = 1
        self.most_at_once = max(self.most_at_once, sum(self._busy.values()))
        try:
            await asyncio.sleep(0.001)
            return await answer()
        finally:
            self._busy[customer] = 0

    async def _answer(self, request: web.Request, fields: dict[str, str]) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return _error(401, "", "Invalid API Key provided")
        if self.trouble:
            trouble = self.trouble.pop(0)
            if trouble is not None:
                return trouble
            self._take(request.headers["Idempotency-Key"], fields)
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        status, body = self._take(request.headers["Idempotency-Key"], fields)
        return web.json_response(body, status=status)

    def _take(self, key: str, fields: dict[str, str]) -> tuple[int, dict[str, object]]:
        if key in self._answers and not self.forgets:
            return self._answers[key]
        answer = self._decide(fields)
        self._answers[key] = answer
        return answer

    def _decide(self, fields: dict[str, str]) -> tuple[int, dict[str, object]]:
        identifier, at = fields["identifier"], int(fields["timestamp"])
        customer, value = fields["payload[stripe_customer_id]"], int(fields["payload[value]"])
        if len(identifier) > 100 or len(fields["event_name"]) > 100:
            return 400, {"error": {"code": "parameter_invalid_string", "message": "too long"}}
        if not self.now() - AGE_MAX_S <= at <= self.now() + 300:
            return 400, {
                "error": {"code": "timestamp_too_far_in_past", "message": "The timestamp is too old."}
            }
        if not customer.startswith("cus_"):
            return 400, {"error": {"code": "resource_missing", "message": f"No such customer: '{customer}'"}}
        if identifier in self.events and not self.forgets:
            return 400, {"error": {"message": f"An event already exists with identifier {identifier}."}}
        self.events[identifier] = fields
        self.totals[customer] = self.totals.get(customer, 0) + value
        return 200, {"object": "billing.meter_event", "identifier": identifier}


def _error(status: int, code: str, message: str) -> web.Response:
    return web.json_response({"error": {"code": code, "message": message}}, status=status)
