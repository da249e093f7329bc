"""What crosses the borders of OpenID sign-in. All frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.tenancy.principal import Role

__all__ = ["Claims", "ProviderConfig", "ProviderFailed"]


class ProviderFailed(Exception):
    """The sign-in cannot be finished. `code` is for the page and the audit log; the text is for the server's log."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """`origin` is the console's own, as browsers and the provider know it."""

    issuer: str
    client_id: str
    name: str
    origin: str
    client_secret: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    role_claim: str | None = None
    role_map: Mapping[str, Role] = field(default_factory=dict)
    """Value of the claim → role; who has none of the values does not get in."""
    registers: bool = False
    """Whoever the provider knows becomes a user, with the mapped role or `default_role`."""
    default_role: Role = "member"
    is_enabled: bool = True

    @property
    def redirect_uri(self) -> str:
        return f"{self.origin}/v1/organization/sessions/oidc/callback"


@dataclass(frozen=True, slots=True)
class Claims:
    """What a provider that proved itself says of somebody. `email` is None unless it says that it is verified."""

    issuer: str
    subject: str
    email: str | None
    name: str | None
    all: Mapping[str, Any] = field(repr=False)
