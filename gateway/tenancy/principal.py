"""The caller, as every later part sees it: who, what it may do, how much.

Made by `directory.KeyDirectory` from a credential and from nothing else. It knows no database, no request.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gateway.errors import InsufficientPermissions
from gateway.ids import KeyId, ServiceAccountId, TenantId, UserId

__all__ = [
    "MODEL_SCOPE",
    "USAGE_SCOPE",
    "WEBHOOKS_READ_SCOPE",
    "WEBHOOKS_WRITE_SCOPE",
    "AdminPrincipal",
    "LimitSet",
    "Principal",
    "ProjectRole",
    "Role",
    "ScopedLimits",
]

Role = Literal["owner", "admin", "billing", "viewer", "member"]
"""In the organisation. What each may do is a table: http/admin/access.py."""
ProjectRole = Literal["owner", "member"]

MODEL_SCOPE = "model.request"
USAGE_SCOPE = "usage.read"
"""A tenant's key may read its own tenant's usage, costs and requests."""
WEBHOOKS_READ_SCOPE = "webhooks.read"
WEBHOOKS_WRITE_SCOPE = "webhooks.write"
"""A tenant's key may change its tenant's webhook endpoints, and so read them."""


@dataclass(frozen=True, slots=True)
class LimitSet:
    """Limits of one scope. None means not limited, 0 means nothing passes."""

    requests_per_min: int | None = None
    requests_burst: int | None = None
    """How many requests may come at once; a tenth of the limit, at least 1, when None."""
    tokens_per_min: int | None = None
    requests_per_day: int | None = None
    concurrent_requests: int | None = None
    max_prompt_tokens: int | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ScopedLimits:
    """Limits of the whole tenant, or of one of its keys, or of one served name, or of one name for one key."""

    key_id: KeyId | None
    served_model: str | None
    limits: LimitSet


@dataclass(frozen=True, slots=True)
class Principal:
    """A tenant's key that was proved. Holds no secret, so it may be logged."""

    tenant_id: TenantId
    key_id: KeyId
    scopes: frozenset[str]
    service_account_id: ServiceAccountId | None = None
    fairness_weight: int = 1
    cache_sharing_group: str | None = None
    is_idempotent: bool = False
    """The tenant wants `Idempotency-Key` to be honoured."""
    lineage_id: KeyId | None = None
    """The first key of the rotations that led to this one; None if it was never rotated."""
    limits: tuple[ScopedLimits, ...] = ()
    """The rows that can concern this key: the tenant's own and those that name the key."""

    @property
    def quota_key_id(self) -> KeyId:
        """What a key's limits and budgets are kept under: rotation changes the secret and nothing else."""
        return self.lineage_id or self.key_id

    def require(self, scope: str) -> None:
        if scope not in self.scopes:
            raise InsufficientPermissions(scope)


@dataclass(frozen=True, slots=True)
class AdminPrincipal:
    """A key of the operator's organisation that was proved. It belongs to no tenant."""

    key_id: KeyId
    roles: frozenset[Role]
    """The key's own and its user's: each of them has to allow what is asked."""
    user_id: UserId | None = None
    projects: Mapping[TenantId, ProjectRole] = field(default_factory=dict)
    """The user's memberships: all that a key with the role `member` reaches."""

    @property
    def is_member(self) -> bool:
        return "member" in self.roles
