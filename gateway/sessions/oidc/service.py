"""Signing in through the provider that is configured: there and back, and who it is here.

Place: beside sessions/service.py, which begins the session. What a sign-in needs to remember while the browser is away
travels with the browser, sealed. Somebody is linked to a user by an address that the provider has verified, once; from
then on by the provider's own name for them. Nobody becomes a user by signing in unless the operator said so.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import orjson

from gateway.audit.repository import Actor, AuditEntry, AuditRepository
from gateway.clock import Clock
from gateway.db import Database, ReadSession, WriteSession
from gateway.errors import Conflict, NotFound
from gateway.ids import Entropy
from gateway.keyring import Keyring, SecretBox
from gateway.obs.logging import get_logger
from gateway.sessions.oidc.identity import claims_of, key_id_of_token, proved
from gateway.sessions.oidc.provider import Provider
from gateway.sessions.oidc.repository import ONLY, OidcRepository
from gateway.sessions.oidc.types import Claims, ProviderConfig, ProviderFailed
from gateway.sessions.service import SessionService
from gateway.sessions.types import Grant, Place
from gateway.tenancy.people.service import PeopleService
from gateway.tenancy.people.types import User
from gateway.tenancy.principal import Role

__all__ = ["SECRET_PURPOSE", "WAY_LASTS", "OidcService", "Way"]

SECRET_PURPOSE = "identity provider"
WAY_LASTS = timedelta(minutes=10)
RANDOM_BYTES = 32
STRONGEST_FIRST: tuple[Role, ...] = ("owner", "admin", "billing", "viewer", "member")
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Way:
    """The way to the provider: where the browser goes, and what it carries until it is back."""

    url: str
    cookie: str
    config: ProviderConfig


class OidcService:
    def __init__(
        self,
        database: Database,
        people: PeopleService,
        sessions: SessionService,
        audit: AuditRepository,
        ring: Keyring,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self.repository = OidcRepository()
        self._provider = Provider(clock)
        self._database = database
        self._people = people
        self._sessions = sessions
        self._audit = audit
        self._ways = SecretBox(ring, "oidc way", entropy)
        self._secrets = SecretBox(ring, SECRET_PURPOSE, entropy)
        self._clock = clock
        self._entropy = entropy

    async def config(self) -> ProviderConfig | None:
        """With its secret; None when no provider is configured, or it is switched off."""
        async with self._database.read() as session:
            found = await self.repository.provider(session)
        if found is None or not found[0].is_enabled:
            return None
        config, sealed = found
        secret = self._secrets.open(sealed, ONLY.encode()) if sealed is not None else None
        return replace(config, client_secret=secret.decode() if secret is not None else None)

    async def put(
        self, session: WriteSession, actor: Actor, config: ProviderConfig, keeps_secret: bool
    ) -> None:
        """With its audit row. `keeps_secret`: the one that is stored stays."""
        before = await self.repository.provider(session)
        sealed = before[1] if before is not None and keeps_secret else None
        if config.client_secret is not None:
            sealed = self._secrets.close(config.client_secret.encode(), ONLY.encode())
        await self.repository.put_provider(session, config, sealed, self._clock.now())
        details = {"before": _facts(before[0]) if before is not None else None, "after": _facts(config)}
        await self._record(session, actor, "identity_provider.updated", ("identity_provider", ONLY), details)

    async def delete(self, session: WriteSession, actor: Actor) -> None:
        before = await self.repository.provider(session)
        if before is None:
            raise NotFound("No identity provider is configured.")
        await self.repository.delete_provider(session)
        details = {"before": _facts(before[0])}
        await self._record(session, actor, "identity_provider.deleted", ("identity_provider", ONLY), details)

    async def start(self, return_to: str) -> Way:
        """Raises NotFound when there is no provider, ProviderFailed when it does not answer."""
        config = await self.config()
        if config is None:
            raise NotFound("No identity provider is configured.")
        description = await self._provider.description(config)
        state, nonce, verifier = (self._random() for _ in range(3))
        ends = self._clock.now() + WAY_LASTS
        carried = {"s": state, "n": nonce, "v": verifier, "r": return_to, "e": int(ends.timestamp())}
        cookie = _text(self._ways.close(orjson.dumps(carried), config.issuer.encode()))
        query = {
            "response_type": "code",
            "client_id": config.client_id,
            "redirect_uri": config.redirect_uri,
            "scope": " ".join(config.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": _text(hashlib.sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        there = str(description.get("authorization_endpoint", ""))
        return Way(f"{there}{'&' if '?' in there else '?'}{urlencode(query)}", cookie, config)

    async def finish(self, code: str, state: str, cookie: str, place: Place) -> tuple[Grant, str]:
        """The session, and where the browser wanted to go. Raises ProviderFailed, which is in the audit log by then."""
        try:
            config = await self.config()
            if config is None:
                raise ProviderFailed("not_configured", "no provider is configured any more")
            carried = self._carried(cookie, state, config)
            claims = await self._claims(config, code, carried)
            return await self._signed_in(config, claims, place), str(carried["r"])
        except ProviderFailed as error:
            _log.warning("sign-in through the provider failed", code=error.code, why=str(error))
            await self._sessions.note_refusal(None, place, f"oidc_{error.code}")
            raise

    def _carried(self, cookie: str, state: str, config: ProviderConfig) -> Mapping[str, Any]:
        try:
            sealed = base64.urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4))
        except ValueError:
            sealed = b""
        plain = self._ways.open(sealed, config.issuer.encode())
        carried: Mapping[str, Any] = orjson.loads(plain) if plain is not None else {}
        if not carried or carried["s"] != state:
            raise ProviderFailed("bad_state", "the answer belongs to no sign-in of this browser")
        if self._clock.now() >= datetime.fromtimestamp(carried["e"], UTC):
            raise ProviderFailed("too_late", "the sign-in took too long")
        return carried

    async def _claims(self, config: ProviderConfig, code: str, carried: Mapping[str, Any]) -> Claims:
        tokens = await self._provider.tokens(config, code, carried["v"])
        token = tokens.get("id_token")
        if not isinstance(token, str):
            raise ProviderFailed("bad_token", "the provider gave no ID token")
        jwk = await self._provider.key(config, key_id_of_token(token))
        known = proved(token, jwk, config, carried["n"], self._clock)
        userinfo: Mapping[str, Any] = {}
        lacks = "email" not in known or (config.role_claim is not None and config.role_claim not in known)
        if lacks and isinstance(tokens.get("access_token"), str):
            userinfo = await self._provider.userinfo(config, tokens["access_token"])
        return claims_of(config, known, userinfo)

    async def _signed_in(self, config: ProviderConfig, claims: Claims, place: Place) -> Grant:
        role = _role(config, claims)
        async with self._database.write() as session:
            user = await self._user(session, config, claims, role, place)
        if role is not None and role != user.role:
            await self._take_role(user, role, place)
        async with self._database.write() as session:
            return await self._sessions.begin(session, user.id, "oidc", place)

    async def _user(
        self, session: WriteSession, config: ProviderConfig, claims: Claims, role: Role | None, place: Place
    ) -> User:
        people, reading = self._people.repository, ReadSession(session)
        await people.lock(session)  # of two first sign-ins at once one links, and the other finds it
        linked = await self.repository.user_of(session, claims.issuer, claims.subject)
        user = await people.user(reading, linked) if linked is not None else None
        if user is not None:
            return user
        if claims.email is None:
            raise ProviderFailed("email_not_verified", "the provider has not verified an address")
        user = await people.user_by_email(reading, claims.email)
        actor = Actor("user", user.id if user is not None else "unknown", place.request_id, place.address)
        if user is None:
            if not config.registers:
                raise ProviderFailed("unknown_user", "nobody here has this address")
            name = claims.name or claims.email
            user = await self._people.create_user(
                session, actor, claims.email, name, role or config.default_role
            )
            actor = replace(actor, id=user.id)
        await self.repository.link(session, claims.issuer, claims.subject, user.id, self._clock.now())
        details = {"after": {"issuer": claims.issuer, "subject": claims.subject}}
        await self._record(session, actor, "user.identity_linked", ("user", user.id), details)
        return user

    async def _take_role(self, user: User, role: Role, place: Place) -> None:
        """What the provider says of somebody's role holds from this sign-in on; but the last owner stays one."""
        try:
            async with self._database.write() as session:
                actor = Actor("system", "identity_provider", place.request_id, place.address)
                await self._people.update_user(session, actor, user.id, role, None)
        except Conflict:
            _log.warning("the last owner keeps the role", user=user.id)

    def _random(self) -> str:
        return _text(self._entropy(RANDOM_BYTES))

    async def _record(
        self,
        session: WriteSession,
        actor: Actor,
        action: str,
        resource: tuple[str, str],
        details: Mapping[str, Any],
    ) -> None:
        await self._audit.append(session, actor, AuditEntry(action, *resource, None, details))


def _role(config: ProviderConfig, claims: Claims) -> Role | None:
    """The strongest that the claim's values give; None where roles are not the provider's to say."""
    if config.role_claim is None:
        return None
    value = claims.all.get(config.role_claim)
    values = value if isinstance(value, list) else [value]
    roles = {config.role_map[one] for one in values if isinstance(one, str) and one in config.role_map}
    for role in STRONGEST_FIRST:
        if role in roles:
            return role
    raise ProviderFailed("no_role", f"the claim {config.role_claim} gives no role")


def _facts(config: ProviderConfig) -> Mapping[str, Any]:
    return {
        "issuer": config.issuer,
        "client_id": config.client_id,
        "origin": config.origin,
        "role_claim": config.role_claim,
        "role_map": dict(config.role_map),
        "allows_registration": config.registers,
        "default_role": config.default_role,
        "enabled": config.is_enabled,
    }


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")
