"""Shapes of the console's people: sessions, who somebody is, invites that are accepted by a link."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from gateway.http.description.shapes.tenancy import Invite, Role, UserProject

__all__ = [
    "GrantedSession",
    "IdentityProvider",
    "IdentityProviderDeleted",
    "Invitation",
    "LinkedInvite",
    "Me",
    "PasswordChanged",
    "PasswordLink",
    "PasswordReset",
    "PasswordResetRequested",
    "Session",
    "SessionEnded",
    "SignInMethods",
]


class Session(TypedDict):
    object: Literal["organization.session"]
    id: str
    method: Literal["password", "invite", "oidc"]
    is_current: bool
    ip_address: str | None
    user_agent: str | None
    created_at: int
    last_used_at: int
    expires_at: int


class Person(TypedDict):
    id: str
    name: str
    email: str | None
    role: Role


class GrantedSession(Session):
    """The tokens are in the answer's cookies."""

    access_expires_at: int
    refresh_expires_at: int
    user: Person


class SessionEnded(TypedDict):
    object: Literal["organization.session.ended"]
    ended: bool
    sessions: NotRequired[int]


class MySession(TypedDict):
    id: str
    expires_at: int


class Me(TypedDict):
    """`may`: `METHOD /path` of every route that the caller may use, in some of their projects at least."""

    object: Literal["organization.me"]
    kind: Literal["user", "admin_key"]
    user: Person | None
    roles: list[Role]
    is_bound_to_projects: bool
    projects: list[UserProject]
    may: list[str]
    session: MySession | None


class PasswordChanged(TypedDict):
    object: Literal["organization.me.password"]
    changed: bool


class Invitation(TypedDict):
    object: Literal["organization.invitation"]
    email: str
    role: Role
    expires_at: int


class LinkedInvite(Invite):
    """`accept_url` is null when it was mailed."""

    accept_url: str | None
    mailed: bool
    mail_error: str | None


class PasswordLink(TypedDict):
    """`url` is in this answer alone."""

    object: Literal["organization.user.password_link"]
    user_id: str
    email: str
    url: str
    expires_at: int


class PasswordResetRequested(TypedDict):
    """Whether there is such an account or not."""

    object: Literal["organization.password_reset.requested"]
    requested: bool


class PasswordReset(TypedDict):
    object: Literal["organization.password_reset"]
    email: str
    expires_at: int


class SignInProvider(TypedDict):
    name: str
    start_path: str


class SignInMethods(TypedDict):
    object: Literal["organization.session.methods"]
    password: bool
    password_reset: Literal["mail", "owner"]
    """Who helps somebody that has lost theirs: a mailed code, or an owner with a link."""
    oidc: SignInProvider | None


class IdentityProvider(TypedDict):
    object: Literal["organization.identity_provider"]
    issuer: str
    client_id: str
    has_client_secret: bool
    name: str
    origin: str
    redirect_uri: str
    scopes: list[str]
    role_claim: str | None
    role_map: dict[str, Role]
    allows_registration: bool
    default_role: Role
    enabled: bool


class IdentityProviderDeleted(TypedDict):
    object: Literal["organization.identity_provider.deleted"]
    deleted: bool
