"""Endpoints as their owners change them: made, changed, rotated, tested, enabled again, deleted; each with its audit row.

A secret is in the answer that makes it and nowhere else. It does not know who may do what, nor how answers look.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from gateway.alerts.repository.deliveries import replay
from gateway.alerts.repository.endpoints import CHANNEL, OPERATOR, EndpointRepository, Owner
from gateway.alerts.webhooks.channel import post
from gateway.alerts.webhooks.formats.pagerduty import EVENTS_URL
from gateway.alerts.webhooks.guard import Guard
from gateway.alerts.webhooks.samples import sample_of
from gateway.alerts.webhooks.sender import Answer, Sender, SendFailed
from gateway.alerts.webhooks.signing import OVERLAP, Secrets, hint_of, new_secret
from gateway.alerts.webhooks.types import Change, Endpoint, NewEndpoint, shown_url
from gateway.alerts.webhooks.vault import Vault
from gateway.audit.repository import Actor, AuditEntry, AuditRepository
from gateway.clock import Clock
from gateway.db import Database, WriteSession
from gateway.errors import ClientError, Conflict, InvalidValue, NotFound, ServiceUnavailable
from gateway.events import EVENT_TYPES, TENANT_EVENT_TYPES
from gateway.ids import Entropy, IdSource

__all__ = ["EndpointService", "Unreachable", "WebhookParts", "event_types_of"]

ENDPOINTS_MAX = 20
"""Of one tenant; the operator may have five times as many."""
NAME_CHARS_MAX = 200
TESTS_MAX = 16
_KEY_CHARS = 32


class Unreachable(ClientError):
    """A test that met no answer: the endpoint's doing, or its owner's, and not to be tried again by itself."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The endpoint did not answer: {why}.", code="webhook_endpoint_unreachable", param="url"
        )


@dataclass(frozen=True, slots=True)
class WebhookParts:
    database: Database
    sender: Sender
    vault: Vault
    guard: Guard
    audit: AuditRepository
    clock: Clock
    ids: IdSource
    entropy: Entropy


def event_types_of(owner: Owner) -> Sequence[str]:
    """What an endpoint of theirs may ask for."""
    return EVENT_TYPES if owner == OPERATOR else TENANT_EVENT_TYPES


class EndpointService:
    def __init__(self, parts: WebhookParts) -> None:
        self._p = parts
        self._rows = EndpointRepository()
        self._testing: set[str] = set()

    async def create(self, session: WriteSession, actor: Actor, new: NewEndpoint) -> tuple[Endpoint, str]:
        """With its secret. Raises InvalidValue, and Conflict when there are too many already."""
        owner = Owner(new.tenant_id)
        url = new.url or (EVENTS_URL if new.format == "pagerduty" else "")
        _check_name(new.name)
        if (new.format == "pagerduty") != (new.routing_key is not None):
            raise InvalidValue("PagerDuty's format has a routing key, and no other one.", "routing_key")
        if await self._rows.count(session, owner) >= ENDPOINTS_MAX * (5 if owner == OPERATOR else 1):
            raise Conflict("There are too many webhook endpoints already: delete one that nobody needs.")
        endpoint_id, now = self._p.ids.new("we"), self._p.clock.now()
        secrets = Secrets(new_secret(self._p.entropy), routing_key=_routing_key(new.routing_key))
        endpoint = Endpoint(
            id=endpoint_id,
            tenant_id=new.tenant_id,
            name=new.name,
            url=self._checked(url),
            event_types=_event_types(new.event_types, event_types_of(owner)),
            format=new.format,
            secrets_sealed=self._p.vault.close(endpoint_id, secrets),
            secret_hint=hint_of(secrets.current),
            paused_until=None,
            disabled_at=None,
            disabled_reason=None,
            created_at=now,
            updated_at=now,
        )
        await self._rows.insert(session, endpoint)
        await self._record(session, actor, endpoint, "created", {"after": _facts(endpoint)})
        return endpoint, secrets.current

    async def update(
        self, session: WriteSession, actor: Actor, owner: Owner, endpoint_id: str, change: Change
    ) -> Endpoint:
        """What was disabled is enabled again: whoever changes an endpoint means it to work."""
        before = await self._locked(session, owner, endpoint_id)
        allowed = event_types_of(Owner(before.tenant_id))
        after = before
        if change.name is not None:
            _check_name(change.name)
            after = replace(after, name=change.name)
        if change.url is not None and change.url != shown_url(before):
            after = replace(after, url=self._checked(change.url))
        if change.event_types is not None:
            after = replace(after, event_types=_event_types(change.event_types, allowed))
        if change.routing_key is not None:
            after = self._with_routing_key(after, change.routing_key)
        return await self._changed(session, actor, before, after)

    async def enable(self, session: WriteSession, actor: Actor, owner: Owner, endpoint_id: str) -> Endpoint:
        before = await self._locked(session, owner, endpoint_id)
        return await self._changed(session, actor, before, before)

    async def rotate(
        self, session: WriteSession, actor: Actor, owner: Owner, endpoint_id: str, *, keeps_old: bool
    ) -> tuple[Endpoint, str]:
        """With its new secret; the old one signs beside it for a day if it is kept, and never again if not."""
        before, now = await self._locked(session, owner, endpoint_id), self._p.clock.now()
        old = self._p.vault.open(before) or Secrets("")
        secrets = old.rotated(self._p.entropy, now + OVERLAP if keeps_old and old.current else None)
        sealed, hint = self._p.vault.close(endpoint_id, secrets), hint_of(secrets.current)
        after = replace(before, secrets_sealed=sealed, secret_hint=hint, updated_at=now)
        await self._rows.replace(session, after)
        details = {"after": {"secret_hint": hint, "keeps_old_for_24_hours": keeps_old}}
        await self._record(session, actor, after, "secret_rotated", details)
        return after, secrets.current

    async def delete(self, session: WriteSession, actor: Actor, owner: Owner, endpoint_id: str) -> None:
        endpoint = await self._locked(session, owner, endpoint_id)
        await self._rows.delete(session, endpoint_id)
        await self._record(session, actor, endpoint, "deleted", {"before": _facts(endpoint)})

    async def replay(
        self, session: WriteSession, actor: Actor, owner: Owner, endpoint_id: str, delivery_id: str
    ) -> None:
        """Sent again from the start of its schedule. Raises NotFound, and Conflict while it is on its way anyway."""
        endpoint = await self._locked(session, owner, endpoint_id)
        if endpoint.disabled_at is not None:
            raise Conflict("The endpoint is disabled: enable it first.")
        if not await replay(session, CHANNEL, endpoint_id, delivery_id):
            if await self._rows.delivery(session, endpoint_id, delivery_id) is None:
                raise NotFound("No such delivery.")
            raise Conflict("The delivery is on its way already.")
        details = {"after": {"delivery_id": delivery_id}}
        await self._record(session, actor, endpoint, "delivery_replayed", details)

    async def test(self, owner: Owner, endpoint_id: str, event_type: str) -> Answer:
        """Sends a sample now, whether the endpoint is disabled or not; raises Unreachable without an answer."""
        async with self._p.database.read() as session:
            endpoint = await self._rows.endpoint(session, owner, endpoint_id)
        if endpoint is None:
            raise NotFound("No such webhook endpoint.")
        if event_type not in event_types_of(Owner(endpoint.tenant_id)):
            raise InvalidValue(f"There is no event '{event_type[:50]}' to test with.", "event_type")
        if endpoint_id in self._testing:
            raise Conflict("A test of this endpoint is running.")
        if len(self._testing) >= TESTS_MAX:
            raise ServiceUnavailable("Too many tests are running. Please retry in a moment.")
        message_id = self._p.ids.new("test")
        sample = sample_of(event_type, message_id, endpoint.tenant_id, self._p.clock.now())
        self._testing.add(endpoint_id)
        try:
            return await post(self._p.sender, self._p.vault, self._p.clock, endpoint, message_id, sample)
        except SendFailed as error:
            raise Unreachable(str(error)) from None
        finally:
            self._testing.discard(endpoint_id)

    async def _changed(
        self, session: WriteSession, actor: Actor, before: Endpoint, after: Endpoint
    ) -> Endpoint:
        if after != before:
            after = replace(after, updated_at=self._p.clock.now())
        after = replace(after, disabled_at=None, disabled_reason=None, paused_until=None)
        if after != before:
            await self._rows.replace(session, after)
            details = {"before": _facts(before), "after": _facts(after)}
            verb = "updated" if after.updated_at != before.updated_at else "enabled"
            await self._record(session, actor, after, verb, details)
        return after

    def _with_routing_key(self, endpoint: Endpoint, routing_key: str) -> Endpoint:
        if endpoint.format != "pagerduty":
            raise InvalidValue("PagerDuty's format has a routing key, and no other one.", "routing_key")
        secrets = self._p.vault.open(endpoint)
        if secrets is None:
            raise Conflict("The secret of the endpoint cannot be opened any more: rotate it first.")
        kept = Secrets(secrets.current, secrets.previous, secrets.previous_until, _routing_key(routing_key))
        return replace(endpoint, secrets_sealed=self._p.vault.close(endpoint.id, kept))

    async def _locked(self, session: WriteSession, owner: Owner, endpoint_id: str) -> Endpoint:
        found = await self._rows.endpoint(session, owner, endpoint_id, locked=True)
        if found is None:
            raise NotFound("No such webhook endpoint.")
        return found

    def _checked(self, url: str) -> str:
        try:
            return self._p.guard.checked_url(url)
        except ValueError as error:
            raise InvalidValue(str(error), "url") from None

    async def _record(
        self, session: WriteSession, actor: Actor, endpoint: Endpoint, verb: str, details: dict[str, Any]
    ) -> None:
        entry = AuditEntry(
            f"webhook_endpoint.{verb}", "webhook_endpoint", endpoint.id, endpoint.tenant_id, details
        )
        await self._p.audit.append(session, actor, entry)


def _check_name(name: str) -> None:
    if not name.strip() or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise InvalidValue(f"A name has 1 to {NAME_CHARS_MAX} characters that can be seen.", "name")


def _event_types(asked: Sequence[str], allowed: Collection[str]) -> tuple[str, ...]:
    if not asked:
        raise InvalidValue("At least one event type is needed.", "event_types")
    unknown = sorted(set(asked) - set(allowed))
    if unknown:
        raise InvalidValue(f"There is no event type '{unknown[0][:50]}'.", "event_types")
    return tuple(dict.fromkeys(asked))


def _routing_key(key: str | None) -> str | None:
    if key is not None and not (len(key) == _KEY_CHARS and key.isascii() and key.isalnum()):
        raise InvalidValue(f"A routing key has {_KEY_CHARS} letters and digits.", "routing_key")
    return key


def _facts(endpoint: Endpoint) -> dict[str, Any]:
    """For the audit log. Of the address the host only: the rest may be what the receiver knows its senders by."""
    return {
        "name": endpoint.name,
        "host": urlsplit(endpoint.url).netloc,
        "event_types": [*endpoint.event_types],
        "format": endpoint.format,
        "disabled_reason": endpoint.disabled_reason,
    }
