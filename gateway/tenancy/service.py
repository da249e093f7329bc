"""Changes of tenants, service accounts, keys and limits: rules, and one audit row in the same transaction.

The caller opens the transaction and commits it; nothing here commits. A key's value is in the answer that
creates it and nowhere else. It does not know HTTP or who called beyond the `Actor`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal
from unicodedata import category

from gateway.audit.repository import Actor, AuditEntry, AuditRepository
from gateway.clock import Clock
from gateway.db import WriteSession
from gateway.errors import Conflict, InvalidValue, NotFound
from gateway.ids import Entropy, IdSource, KeyId, ServiceAccountId, TenantId, UserId
from gateway.settings import LimitSettings
from gateway.tenancy.addresses import parse_networks
from gateway.tenancy.keys import Peppers, generate_key, mask_key
from gateway.tenancy.principal import (
    MODEL_SCOPE,
    USAGE_SCOPE,
    WEBHOOKS_READ_SCOPE,
    WEBHOOKS_WRITE_SCOPE,
    LimitSet,
    ScopedLimits,
)
from gateway.tenancy.projects.repository import LimitView, ProjectRepository
from gateway.tenancy.repository import KeyRow, TenancyRepository

__all__ = [
    "SCOPES",
    "IssuedKey",
    "KeyChange",
    "KeyOptions",
    "TenancyService",
    "check_name",
    "check_networks",
    "default_limits",
    "issue",
]

SCOPES = frozenset({MODEL_SCOPE, USAGE_SCOPE, WEBHOOKS_READ_SCOPE, WEBHOOKS_WRITE_SCOPE})
NAME_MAX = 200
PERSONAL_NAME = "Playground"
GRACE_MAX_S = 30 * 86_400
_PUBLIC_ID_ATTEMPTS = 5
_ARCHIVED = {"before": {"status": "active"}, "after": {"status": "archived"}}


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key. `value` is None when the same rotation is asked for again: it was shown once."""

    id: KeyId
    value: str | None = field(repr=False)
    masked: str


@dataclass(frozen=True, slots=True)
class KeyOptions:
    """What a key may do and from where, until when."""

    scopes: frozenset[str] = frozenset({MODEL_SCOPE})
    expires_at: datetime | None = None
    ip_allow_list: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyChange:
    """What is to be different; None stays as it is."""

    scopes: frozenset[str] | None = None
    expires_at: datetime | None = None
    ip_allow_list: tuple[str, ...] | None = None

    def on(self, options: KeyOptions) -> KeyOptions:
        return KeyOptions(
            options.scopes if self.scopes is None else self.scopes,
            options.expires_at if self.expires_at is None else self.expires_at,
            options.ip_allow_list if self.ip_allow_list is None else self.ip_allow_list,
        )


class TenancyService:
    def __init__(
        self,
        repository: TenancyRepository,
        audit: AuditRepository,
        peppers: Peppers,
        clock: Clock,
        ids: IdSource,
        entropy: Entropy,
        new_tenant_limits: LimitSet,
        visible_models: Sequence[str] | None = None,
    ) -> None:
        """The last two are what a new tenant gets; it may be changed for each of them afterwards."""
        self._repository = repository
        self._audit = audit
        self._peppers = peppers
        self._clock = clock
        self._ids = ids
        self._entropy = entropy
        self._new_tenant_limits = new_tenant_limits
        self._visible_models = visible_models

    async def create_tenant(
        self, session: WriteSession, actor: Actor, name: str, fairness_weight: int = 1
    ) -> TenantId:
        check_name(name)
        tenant_id = TenantId(self._ids.new("proj"))
        await self._repository.insert_tenant(session, tenant_id, name, fairness_weight)
        scoped, row_id = ScopedLimits(None, None, self._new_tenant_limits), self._ids.new("rl")
        await self._repository.put_limits(session, tenant_id, row_id, scoped, self._clock.now())
        if self._visible_models is not None:
            permission = "allow_list", self._visible_models
            await ProjectRepository().put_permission(session, tenant_id, *permission)
        await self._record(
            session, actor, "project.created", "project", tenant_id, tenant_id, {"after": {"name": name}}
        )
        return tenant_id

    async def archive_tenant(self, session: WriteSession, actor: Actor, tenant_id: TenantId) -> None:
        await self._require_active(session, tenant_id)
        await self._repository.archive_tenant(session, tenant_id, self._clock.now())
        await self._record(session, actor, "project.archived", "project", tenant_id, tenant_id, _ARCHIVED)

    async def create_service_account(
        self,
        session: WriteSession,
        actor: Actor,
        tenant_id: TenantId,
        name: str,
        role: Literal["owner", "member", "none"] = "member",
    ) -> ServiceAccountId:
        check_name(name)
        await self._require_active(session, tenant_id)
        account_id = ServiceAccountId(self._ids.new("svc_acct"))
        await self._repository.insert_service_account(session, tenant_id, account_id, name, role)
        details = {"after": {"name": name, "role": role}}
        await self._record(
            session, actor, "service_account.created", "service_account", account_id, tenant_id, details
        )
        return account_id

    async def create_key(
        self,
        session: WriteSession,
        actor: Actor,
        tenant_id: TenantId,
        name: str,
        service_account_id: ServiceAccountId | None = None,
        options: KeyOptions | None = None,
        user_id: UserId | None = None,
    ) -> IssuedKey:
        options = options or KeyOptions()
        check_name(name)
        _check_options(options, self._clock.now())
        await self._require_active(session, tenant_id)
        if service_account_id is not None and not await self._repository.service_account_exists(
            session, tenant_id, service_account_id
        ):
            raise NotFound("No such service account.")
        key_id = KeyId(self._ids.new("key"))
        template = _new_row(tenant_id, key_id, name, service_account_id, options)
        issued = await self._issue(session, replace(template, user_id=user_id))
        details = {"after": {"name": name, "masked": issued.masked, **_options_details(options)}}
        await self._record(session, actor, "api_key.created", "api_key", key_id, tenant_id, details)
        return issued

    async def personal_key(
        self, session: WriteSession, actor: Actor, tenant_id: TenantId, user_id: UserId
    ) -> KeyId:
        """What a user's requests from the console are limited and charged as. Its secret is let go of at once: who may
        use it is asked of the session each time."""
        await self._repository.lock_user(session, user_id)
        known = await self._repository.personal_key(session, tenant_id, user_id)
        if known is not None:
            return known
        return (await self.create_key(session, actor, tenant_id, PERSONAL_NAME, user_id=user_id)).id

    async def rotate_key(
        self,
        session: WriteSession,
        actor: Actor,
        tenant_id: TenantId,
        key_id: KeyId,
        grace_s: float,
        idempotency_key: str,
    ) -> IssuedKey:
        """A new secret in place of the old one; both work until the grace is over, to the instant. The same
        rotation asked for again answers with the same key, without its value. Everything else stays: limits
        and budgets of a key belong to the whole chain of its rotations."""
        if not 0 <= grace_s <= GRACE_MAX_S:
            raise InvalidValue(f"The grace period must be between 0 and {GRACE_MAX_S} seconds.", "grace_s")
        if not 0 < len(idempotency_key) <= NAME_MAX:
            raise InvalidValue(f"The key must have 1 to {NAME_MAX} characters.", "idempotency_key")
        old = await self._require_key(session, tenant_id, key_id)
        _refuse_personal(old)
        made = await self._repository.successor(session, tenant_id, key_id, idempotency_key)
        if made is not None:
            successor = await self._require_key(session, tenant_id, made)
            return IssuedKey(made, None, f"tw-{successor.public_id}-***")
        now = self._clock.now()
        if old.revoked_at is not None or (old.expires_at is not None and old.expires_at <= now):
            raise Conflict("The key is revoked or expired and cannot be rotated.")
        new_id = KeyId(self._ids.new("key"))
        issued = await self._issue(session, replace(old, id=new_id, rotated_from=old.id), idempotency_key)
        ends = min(filter(None, (old.expires_at, now + timedelta(seconds=grace_s))))
        await self._repository.change_key(session, tenant_id, old.id, replace(old, expires_at=ends))
        details = {
            "before": {"expires_at": old.expires_at.isoformat() if old.expires_at else None},
            "after": {"expires_at": ends.isoformat(), "successor": new_id, "masked": issued.masked},
        }
        await self._record(session, actor, "api_key.rotated", "api_key", old.id, tenant_id, details)
        return issued

    async def revoke_key(
        self, session: WriteSession, actor: Actor, tenant_id: TenantId, key_id: KeyId
    ) -> None:
        """Takes effect on every replica within 2 s. A second revocation changes nothing."""
        row = await self._require_key(session, tenant_id, key_id)
        if row.revoked_at is not None:
            return
        await self._repository.revoke_key(session, tenant_id, key_id, self._clock.now())
        await self._record(
            session, actor, "api_key.deleted", "api_key", key_id, tenant_id, {"before": {"name": row.name}}
        )

    async def change_key(
        self, session: WriteSession, actor: Actor, tenant_id: TenantId, key_id: KeyId, change: KeyChange
    ) -> None:
        """Takes effect on every replica within 2 s. An expired key stays expired."""
        row = await self._require_key(session, tenant_id, key_id)
        _refuse_personal(row)
        now = self._clock.now()
        if row.revoked_at is not None:
            raise NotFound("No such API key.")
        if row.expires_at is not None and row.expires_at <= now:
            raise Conflict("The key is expired and cannot be changed.")
        before = KeyOptions(row.scopes, row.expires_at, row.ip_allow_list)
        after = change.on(before)
        if after == before:
            return
        _check_options(after, now)
        await self._repository.change_key(session, tenant_id, key_id, replace(row, **asdict(after)))
        details = {"before": _options_details(before), "after": _options_details(after)}
        await self._record(session, actor, "api_key.updated", "api_key", key_id, tenant_id, details)

    async def set_limits(
        self, session: WriteSession, actor: Actor, tenant_id: TenantId, scoped: ScopedLimits
    ) -> LimitView:
        """Replaces the limits of one scope; what is stored now. A key's are under the first of its chain."""
        await self._require_active(session, tenant_id)
        _check_limits(scoped.limits)
        if scoped.key_id is not None:
            row = await self._require_key(session, tenant_id, scoped.key_id)
            scoped = replace(scoped, key_id=row.lineage_id)
        scope = (scoped.key_id, scoped.served_model)
        before = await self._repository.limits_of_scope(session, tenant_id, *scope)
        row_id, now = before[0] if before is not None else self._ids.new("rl"), self._clock.now()
        await self._repository.put_limits(session, tenant_id, row_id, scoped, now)
        details = {
            "key_id": scoped.key_id,
            "served_model": scoped.served_model,
            "before": asdict(before[1]) if before is not None else None,
            "after": asdict(scoped.limits),
        }
        await self._record(session, actor, "rate_limit.updated", "rate_limit", row_id, tenant_id, details)
        return LimitView(row_id, scoped, now)

    async def _issue(self, session: WriteSession, row: KeyRow, rotation_key: str | None = None) -> IssuedKey:
        """Writes `row` with a fresh public part and secret."""

        async def write(public_id: str, pepper_id: str, secret_hmac: bytes) -> bool:
            complete = replace(row, public_id=public_id, pepper_id=pepper_id, secret_hmac=secret_hmac)
            return await self._repository.insert_key(session, complete, rotation_key)

        return await issue(self._peppers, self._entropy, row.id, write)

    async def _require_active(self, session: WriteSession, tenant_id: TenantId) -> None:
        active = await self._repository.tenant_is_active(session, tenant_id)
        if active is None:
            raise NotFound("No such project.")
        if not active:
            raise Conflict("The project is archived.")

    async def _require_key(self, session: WriteSession, tenant_id: TenantId, key_id: KeyId) -> KeyRow:
        row = await self._repository.key(session, tenant_id, key_id)
        if row is None:
            raise NotFound("No such API key.")
        return row

    async def _record(
        self,
        session: WriteSession,
        actor: Actor,
        action: str,
        resource_kind: str,
        resource_id: str,
        tenant_id: TenantId,
        details: Mapping[str, Any],
    ) -> None:
        entry = AuditEntry(action, resource_kind, resource_id, tenant_id, details)
        await self._audit.append(session, actor, entry)


async def issue(
    peppers: Peppers, entropy: Entropy, key_id: KeyId, write: Callable[[str, str, bytes], Awaitable[bool]]
) -> IssuedKey:
    """`write(public_id, pepper_id, secret_hmac)` says whether that public part was free, and has its row then."""
    for _ in range(_PUBLIC_ID_ATTEMPTS):
        key = generate_key(entropy)
        if await write(key.public_id, *peppers.stored(key)):
            return IssuedKey(key_id, key.value, mask_key(key.value))
    raise AssertionError("40 random bits collided five times: the randomness is broken")


def default_limits(settings: LimitSettings) -> LimitSet:
    """What a new tenant gets; a setting of 0 is no limit."""
    return LimitSet(
        requests_per_min=settings.requests_per_minute or None,
        tokens_per_min=settings.tokens_per_minute or None,
        requests_per_day=settings.requests_per_day or None,
        concurrent_requests=settings.concurrent_requests or None,
        max_prompt_tokens=settings.max_prompt_tokens or None,
        max_output_tokens=settings.max_output_tokens or None,
    )


def _new_row(
    tenant_id: TenantId, id: KeyId, name: str, account: ServiceAccountId | None, options: KeyOptions
) -> KeyRow:
    """Without public part and secret, which `_issue` adds."""
    return KeyRow(
        tenant_id=tenant_id,
        id=id,
        name=name,
        lineage_id=id,
        public_id="",
        secret_hmac=b"",
        pepper_id="",
        service_account_id=account,
        scopes=options.scopes,
        ip_allow_list=options.ip_allow_list,
        expires_at=options.expires_at,
        revoked_at=None,
        rotated_from=None,
        owner_is_active=True,
        fairness_weight=1,
        cache_sharing_group=None,
    )


def check_name(name: str) -> None:
    if not 0 < len(name.strip()) <= NAME_MAX:
        raise InvalidValue(f"The name must have 1 to {NAME_MAX} characters.", "name")
    if any(category(character) == "Cc" for character in name):
        raise InvalidValue("The name must be one line, without control characters.", "name")


def _refuse_personal(row: KeyRow) -> None:
    """It has no secret that anybody knows, and must not get one."""
    if row.user_id is not None:
        raise Conflict("This key stands for a person's requests from the console: it can only be revoked.")


def _check_options(options: KeyOptions, now: datetime) -> None:
    unknown = options.scopes - SCOPES
    if unknown:
        raise InvalidValue(f"Unknown scope: {min(unknown)}.", "scopes")
    if options.expires_at is not None and options.expires_at <= now:
        raise InvalidValue("The expiry must be in the future.", "expires_at")
    check_networks(options.ip_allow_list)


def check_networks(values: Sequence[str]) -> None:
    try:
        parse_networks(values)
    except ValueError as error:
        raise InvalidValue("Each entry must be an IP address or a CIDR block.", "ip_allow_list") from error


def _check_limits(limits: LimitSet) -> None:
    for name in LimitSet.__slots__:
        value = getattr(limits, name)
        if value is not None and value < 0:
            raise InvalidValue("A limit cannot be negative.", name)


def _options_details(options: KeyOptions) -> dict[str, Any]:
    return {
        "scopes": sorted(options.scopes),
        "expires_at": options.expires_at.isoformat() if options.expires_at else None,
        "ip_allow_list": list(options.ip_allow_list),
    }
