"""The channel of webhooks: which endpoints want an event, and what an endpoint's answer means.

2xx is taken; everything else is tried again, redirects too; 410 ends the endpoint; 429 and 503 slow all of it down, for as
long as they ask. An endpoint that took nothing over a whole schedule is disabled, and somebody else is told.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.alerts.channel import NotDelivered, Postponed, Receipt, Undeliverable
from gateway.alerts.repository.endpoints import (
    CHANNEL,
    EVERYBODY,
    EndpointRepository,
    disable,
    listeners,
    pause,
)
from gateway.alerts.types import Message, Record, Target
from gateway.alerts.webhooks.formats import body_of
from gateway.alerts.webhooks.sender import TIMEOUT_S, Answer, Sender, SendFailed
from gateway.alerts.webhooks.signing import signed
from gateway.alerts.webhooks.types import Endpoint
from gateway.alerts.webhooks.vault import Vault
from gateway.clock import Clock
from gateway.db import Database, WriteConnection
from gateway.events import Event, announce

__all__ = ["WebhookChannel", "post"]

PAUSE_S = 30.0
"""After a 429 or 503 that names no time."""
PAUSE_MAX_S = 3600.0
GONE, FAILING = "gone", "failing"


class WebhookChannel:
    name = CHANNEL
    in_flight_max = 64
    per_target_max = 2
    lease_s = 2 * TIMEOUT_S

    def __init__(self, database: Database, sender: Sender, vault: Vault, clock: Clock) -> None:
        self._database = database
        self._sender = sender
        self._vault = vault
        self._clock = clock
        self._endpoints = EndpointRepository()

    async def targets(self, connection: WriteConnection, record: Record) -> Sequence[Target]:
        found = await listeners(connection, record.type, record.tenant_id)
        return [Target(endpoint_id, {}) for endpoint_id in found]

    async def send(self, message: Message) -> Receipt:
        async with self._database.read() as session:
            endpoint = await self._endpoints.endpoint(session, EVERYBODY, message.target.key)
        if endpoint is None or endpoint.disabled_at is not None:
            raise Undeliverable(
                "the endpoint is disabled" if endpoint is not None else "there is no endpoint"
            )
        if endpoint.paused_until is not None and endpoint.paused_until > self._clock.now():
            raise Postponed(endpoint.paused_until)
        try:
            answer = await post(self._sender, self._vault, self._clock, endpoint, message.id, message.record)
        except SendFailed as error:
            raise NotDelivered(str(error)) from None
        return _judged(answer)

    async def failed(
        self, connection: WriteConnection, message: Message, error: NotDelivered, *, is_over: bool
    ) -> None:
        status = error.receipt.status
        if is_over:
            await self._end(connection, message, GONE if status == 410 else FAILING, str(error))
        elif status in (429, 503):
            wanted_s = min(error.retry_after_s or PAUSE_S, PAUSE_MAX_S)
            await pause(connection, message.target.key, wanted_s)

    async def _end(self, connection: WriteConnection, message: Message, reason: str, why: str) -> None:
        endpoint_id = message.target.key
        ended = await disable(connection, endpoint_id, reason, message.id, unless_heard=reason != GONE)
        if ended is None:
            return
        tenant_id, name, at = ended
        payload = {
            "webhook_endpoint_id": endpoint_id,
            "name": name,
            "reason": reason,
            "last_error": why,
            "delivery_id": message.id,
            "summary": f"Webhook endpoint {name} was disabled: {why}",
        }
        key = f"{endpoint_id} {message.id} {message.attempt}"
        await announce(connection, [Event("webhook_endpoint.disabled", tenant_id, key, payload, at)])


async def post(
    sender: Sender, vault: Vault, clock: Clock, endpoint: Endpoint, message_id: str, record: Record
) -> Answer:
    """One attempt, stamped and signed now. Raises SendFailed without an answer."""
    kept = vault.open(endpoint)
    if kept is None:
        raise SendFailed("its secret was sealed under a master key that is gone: rotate it")
    body, now = body_of(endpoint.format, record, kept.routing_key), clock.now()
    return await sender.post(endpoint.url, signed(message_id, body, kept.active(now), now), body)


def _judged(answer: Answer) -> Receipt:
    receipt = Receipt(answer.status, answer.text)
    if 200 <= answer.status < 300:
        return receipt
    if answer.status == 410:
        raise Undeliverable("410: the receiver wants no more", receipt=receipt)
    why = (
        f"{answer.status}: a redirect, and none is followed"
        if 300 <= answer.status < 400
        else f"{answer.status}"
    )
    raise NotDelivered(why, answer.retry_after_s, receipt)
