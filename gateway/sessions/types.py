"""What crosses the borders of sessions. All frozen; none of it is logged, and only `Grant` holds a secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from gateway.ids import TenantId
from gateway.tenancy.people.types import User
from gateway.tenancy.principal import ProjectRole

__all__ = ["EndReason", "Grant", "Method", "Place", "SessionRow", "Standing"]

Method = Literal["password", "invite", "oidc"]
EndReason = Literal["logout", "logout_all", "ended", "password", "reuse"]


@dataclass(frozen=True, slots=True)
class Place:
    """From where somebody signs in, as far as it can be told."""

    address: str | None
    user_agent: str | None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class SessionRow:
    id: str
    user_id: str
    method: Method
    created_at: datetime
    rotated_at: datetime
    expires_at: datetime
    ended_at: datetime | None
    generation: int
    """Counts the refresh tokens; only the newest one is good."""
    salt: bytes = field(repr=False)
    address: str | None
    user_agent: str | None


@dataclass(frozen=True, slots=True)
class Standing:
    """A session with everything that a request of it needs to know."""

    session: SessionRow
    user: User
    is_active: bool
    """The user is not deleted."""
    projects: Mapping[TenantId, ProjectRole] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a browser is given. `refresh` None: it has the newest one already."""

    standing: Standing
    access: str = field(repr=False)
    access_expires_at: datetime
    refresh: str | None = field(repr=False)
    refresh_expires_at: datetime
