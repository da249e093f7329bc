"""Who may do what: one table of roles and routes, asked before anything of a request's body is read.

Columns: the organisation's roles owner, admin, billing, viewer; then, for who belongs to a project and to nothing
else, its owner and its member; then a project's own API key with the scope `usage.read`. A dot is a refusal. Who is
bound to projects gets the same 404 for one that is not theirs as for one that does not exist.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fastapi import Request, Response
from fastapi.routing import APIRoute

from gateway.audit.repository import Actor
from gateway.errors import InsufficientPermissions, NotFound
from gateway.ids import TenantId, UserId
from gateway.sessions import Standing
from gateway.tenancy.principal import USAGE_SCOPE, AdminPrincipal, Principal, ProjectRole

__all__ = ["ACCESS", "CHAT_ROUTE", "COLUMNS", "OPEN", "PREFIX", "Caller", "guarded_route"]

PREFIX = "/v1/organization"
Column = Literal["owner", "admin", "billing", "viewer", "project_owner", "project_member", "api_key"]
COLUMNS: tuple[Column, ...] = (
    "owner",
    "admin",
    "billing",
    "viewer",
    "project_owner",
    "project_member",
    "api_key",
)
_TABLE = """
GET    /openapi.json                                                  o a b v P M .
GET    /projects                                                      o a b v P M .
POST   /projects                                                      o a . . . . .
GET    /projects/{project_id}                                         o a b v P M .
POST   /projects/{project_id}                                         o a . . . . .
POST   /projects/{project_id}/archive                                 o a . . . . .
GET    /projects/{project_id}/service_accounts                        o a . v P M .
POST   /projects/{project_id}/service_accounts                        o a . . P . .
GET    /projects/{project_id}/service_accounts/{account_id}           o a . v P M .
POST   /projects/{project_id}/service_accounts/{account_id}           o a . . P . .
DELETE /projects/{project_id}/service_accounts/{account_id}           o a . . P . .
POST   /projects/{project_id}/service_accounts/{account_id}/api_keys  o a . . P . .
GET    /projects/{project_id}/api_keys                                o a . v P M .
POST   /projects/{project_id}/api_keys                                o a . . P . .
GET    /projects/{project_id}/api_keys/{key_id}                       o a . v P M .
POST   /projects/{project_id}/api_keys/{key_id}                       o a . . P . .
DELETE /projects/{project_id}/api_keys/{key_id}                       o a . . P . .
POST   /projects/{project_id}/api_keys/{key_id}/rotate                o a . . P . .
POST   /projects/{project_id}/chat/completions                        o a . . P M .
GET    /projects/{project_id}/users                                   o a . v P M .
POST   /projects/{project_id}/users                                   o a . . . . .
GET    /projects/{project_id}/users/{user_id}                         o a . v P M .
POST   /projects/{project_id}/users/{user_id}                         o a . . . . .
DELETE /projects/{project_id}/users/{user_id}                         o a . . . . .
GET    /projects/{project_id}/model_permissions                       o a . v P M .
POST   /projects/{project_id}/model_permissions                       o a . . . . .
DELETE /projects/{project_id}/model_permissions                       o a . . . . .
GET    /projects/{project_id}/rate_limits                             o a b v P M .
POST   /projects/{project_id}/rate_limits/{rate_limit_id}             o a . . . . .
GET    /projects/{project_id}/limits                                  o a b v P M .
POST   /projects/{project_id}/limits                                  o a . . . . .
DELETE /projects/{project_id}/limits/{limit_id}                       o a . . . . .
GET    /projects/{project_id}/idempotency                             o a . v P M .
POST   /projects/{project_id}/idempotency                             o a . . . . .
GET    /projects/{project_id}/outage_allowance                        o a b v P M .
POST   /projects/{project_id}/outage_allowance                        o a b . . . .
GET    /projects/{project_id}/spend_limit                             o a b v P M .
POST   /projects/{project_id}/spend_limit                             o a b . . . .
DELETE /projects/{project_id}/spend_limit                             o a b . . . .
GET    /projects/{project_id}/spend_alerts                            o a b v P M .
POST   /projects/{project_id}/spend_alerts                            o a b . P . .
GET    /projects/{project_id}/spend_alerts/{alert_id}                 o a b v P M .
POST   /projects/{project_id}/spend_alerts/{alert_id}                 o a b . P . .
DELETE /projects/{project_id}/spend_alerts/{alert_id}                 o a b . P . .
GET    /projects/{project_id}/webhook_endpoints                       o a . v P M .
POST   /projects/{project_id}/webhook_endpoints                       o a . . P . .
GET    /projects/{project_id}/webhook_endpoints/{endpoint_id}         o a . v P M .
POST   /projects/{project_id}/webhook_endpoints/{endpoint_id}         o a . . P . .
DELETE /projects/{project_id}/webhook_endpoints/{endpoint_id}         o a . . P . .
POST   /projects/{project_id}/webhook_endpoints/{endpoint_id}/rotate_secret o a . . P . .
POST   /projects/{project_id}/webhook_endpoints/{endpoint_id}/test    o a . . P . .
POST   /projects/{project_id}/webhook_endpoints/{endpoint_id}/enable  o a . . P . .
GET    /projects/{project_id}/webhook_endpoints/{endpoint_id}/deliveries o a . v P M .
GET    /projects/{project_id}/webhook_endpoints/{endpoint_id}/deliveries/{delivery_id} o a . v P M .
POST   /projects/{project_id}/webhook_endpoints/{endpoint_id}/deliveries/{delivery_id}/replay o a . . P . .
GET    /projects/{project_id}/webhook_event_types                     o a . v P M .
GET    /live                                                          o a b v P M .
GET    /overview                                                      o a b v . . .
GET    /search                                                        o a b v P M .
GET    /me                                                            o a b v P M .
POST   /me/password                                                   o a b v P M .
GET    /sessions                                                      o a b v P M .
POST   /sessions/logout_everywhere                                    o a b v P M .
DELETE /sessions/{session_id}                                         o a b v P M .
GET    /admin_api_keys                                                o a . . . . .
POST   /admin_api_keys                                                o . . . . . .
GET    /admin_api_keys/{key_id}                                       o a . . . . .
DELETE /admin_api_keys/{key_id}                                       o . . . . . .
GET    /users                                                         o a . . . . .
POST   /users                                                         o . . . . . .
GET    /users/{user_id}                                               o a . . . . .
POST   /users/{user_id}                                               o . . . . . .
DELETE /users/{user_id}                                               o . . . . . .
POST   /users/{user_id}/password_link                                 o . . . . . .
GET    /invites                                                       o a . . . . .
POST   /invites                                                       o . . . . . .
GET    /invites/{invite_id}                                           o a . . . . .
POST   /invites/{invite_id}/accept                                    o . . . . . .
POST   /invites/{invite_id}/link                                      o . . . . . .
DELETE /invites/{invite_id}                                           o . . . . . .
GET    /identity_provider                                             o a . . . . .
POST   /identity_provider                                             o . . . . . .
DELETE /identity_provider                                             o . . . . . .
GET    /audit_logs                                                    o a . . . . .
GET    /pools                                                         o a . v . . .
POST   /pools                                                         o a . . . . .
GET    /pools/{pool_id}                                               o a . v . . .
POST   /pools/{pool_id}                                               o a . . . . .
PATCH  /pools/{pool_id}                                               o a . . . . .
DELETE /pools/{pool_id}                                               o a . . . . .
POST   /pools/{pool_id}/switch                                        o a . . . . .
GET    /replicas                                                      o a . v . . .
GET    /replicas/{replica_id}                                         o a . v . . .
GET    /routes                                                        o a b v . . .
POST   /routes                                                        o a . . . . .
GET    /routes/{route_id}                                             o a b v . . .
POST   /routes/{route_id}                                             o a . . . . .
PATCH  /routes/{route_id}                                             o a . . . . .
DELETE /routes/{route_id}                                             o a . . . . .
GET    /prices                                                        o a b v . . .
POST   /prices                                                        o a b . . . .
GET    /budgets                                                       o a b v . . .
POST   /budgets                                                       o a b . . . .
GET    /budgets/{budget_id}                                           o a b v . . .
POST   /budgets/{budget_id}                                           o a b . . . .
DELETE /budgets/{budget_id}                                           o a b . . . .
GET    /budgets/{budget_id}/periods                                   o a b v . . .
GET    /budgets/{budget_id}/alerts                                    o a b v . . .
POST   /budgets/{budget_id}/alerts                                    o a b . . . .
GET    /budgets/{budget_id}/alerts/{alert_id}                         o a b v . . .
POST   /budgets/{budget_id}/alerts/{alert_id}                         o a b . . . .
DELETE /budgets/{budget_id}/alerts/{alert_id}                         o a b . . . .
GET    /alerts                                                        o a b v . . .
GET    /alerts/{record_id}                                            o a b v . . .
GET    /spend_limit                                                   o a b v . . .
POST   /spend_limit                                                   o a b . . . .
DELETE /spend_limit                                                   o a b . . . .
GET    /spend_alerts                                                  o a b v . . .
POST   /spend_alerts                                                  o a b . . . .
GET    /spend_alerts/{alert_id}                                       o a b v . . .
POST   /spend_alerts/{alert_id}                                       o a b . . . .
DELETE /spend_alerts/{alert_id}                                       o a b . . . .
GET    /credits                                                       o a b v . . .
POST   /credits                                                       o a b . . . .
GET    /credits/{credit_id}                                           o a b v . . .
GET    /adjustments                                                   o a b v . . .
POST   /adjustments                                                   o a b . . . .
GET    /adjustments/{adjustment_id}                                   o a b v . . .
GET    /usage/completions                                             o a b v P M k
GET    /usage/embeddings                                              o a b v P M k
GET    /usage/breakdown                                               o a b v P M k
GET    /usage/usual                                                   o a b v P M k
GET    /costs                                                         o a b v P M k
GET    /requests                                                      o a b v P M k
GET    /requests/{request_id}                                         o a b v P M k
GET    /usage_events                                                  o a b v . . .
GET    /exports                                                       o a b v . . .
POST   /exports                                                       o a b . . . .
GET    /exports/{export_id}                                           o a b v . . .
GET    /exports/{export_id}/files/{name}                              o a b . . . .
GET    /stripe_customers                                              o a b . . . .
POST   /stripe_customers                                              o a b . . . .
GET    /meter_events                                                  o a b . . . .
GET    /objectives                                                    o a b v P M k
POST   /objectives                                                    o a . . . . .
GET    /objectives/{objective_id}                                     o a b v P M k
POST   /objectives/{objective_id}                                     o a . . . . .
DELETE /objectives/{objective_id}                                     o a . . . . .
GET    /alert_episodes                                                o a b v P M k
GET    /alert_episodes/{episode_id}                                   o a b v P M k
GET    /alert_silences                                                o a b v . . .
POST   /alert_silences                                                o a . . . . .
GET    /alert_silences/{silence_id}                                   o a b v . . .
DELETE /alert_silences/{silence_id}                                   o a . . . . .
GET    /pools/{pool_id}/samples                                       o a . v . . .
GET    /slo/board                                                     o a b v P M k
GET    /slo/series                                                    o a b v P M k
GET    /webhook_endpoints                                             o a . v . . .
POST   /webhook_endpoints                                             o a . . . . .
GET    /webhook_endpoints/{endpoint_id}                               o a . v . . .
POST   /webhook_endpoints/{endpoint_id}                               o a . . . . .
DELETE /webhook_endpoints/{endpoint_id}                               o a . . . . .
POST   /webhook_endpoints/{endpoint_id}/rotate_secret                 o a . . . . .
POST   /webhook_endpoints/{endpoint_id}/test                          o a . . . . .
POST   /webhook_endpoints/{endpoint_id}/enable                        o a . . . . .
GET    /webhook_endpoints/{endpoint_id}/deliveries                    o a . v . . .
GET    /webhook_endpoints/{endpoint_id}/deliveries/{delivery_id}      o a . v . . .
POST   /webhook_endpoints/{endpoint_id}/deliveries/{delivery_id}/replay o a . . . . .
GET    /webhook_event_types                                           o a . v . . .
"""


def _parsed() -> Mapping[str, frozenset[Column]]:
    rows = {}
    for line in _TABLE.strip().splitlines():
        method, path, *marks = line.split()
        assert len(marks) == len(COLUMNS), line
        rows[f"{method} {path}"] = frozenset(
            column for column, mark in zip(COLUMNS, marks, strict=True) if mark != "."
        )
    return rows


ACCESS = _parsed()
"""`METHOD /path` → who may."""

CHAT_ROUTE = "POST /projects/{project_id}/chat/completions"
"""Not the framework's: it streams as the data plane does. See playground_routes.py."""

OPEN = frozenset(
    {
        "POST /sessions",
        "POST /sessions/refresh",
        "POST /sessions/logout",
        "POST /invitations/lookup",
        "POST /invitations/accept",
        "POST /password_resets",
        "POST /password_resets/lookup",
        "POST /password_resets/accept",
        "GET /sessions/methods",
        "GET /sessions/oidc/start",
        "GET /sessions/oidc/callback",
    }
)
"""For who is not signed in yet, or not any more. What they are given proves itself: a password, a cookie, a token."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, as far as the table asks."""

    actor: Actor
    roles: frozenset[str] = frozenset()
    """Each of them has to allow it; `member` stands for what the caller is in the project that is asked about."""
    projects: Mapping[TenantId, ProjectRole] = field(default_factory=dict)
    scopes: frozenset[str] | None = None
    """Of a project's own key; None for an administrator."""
    user_id: UserId | None = None
    """Whose key or session it is."""
    standing: Standing | None = None
    """Of a console session; None for keys."""

    @classmethod
    def administrator(cls, principal: AdminPrincipal, actor: Actor) -> Caller:
        return cls(actor, frozenset(principal.roles), principal.projects, user_id=principal.user_id)

    @classmethod
    def person(cls, standing: Standing, actor: Actor) -> Caller:
        user = standing.user
        return cls(actor, frozenset({user.role}), standing.projects, user_id=user.id, standing=standing)

    @classmethod
    def tenant(cls, principal: Principal, actor: Actor) -> Caller:
        return cls(actor, frozenset(), {principal.tenant_id: "member"}, principal.scopes)

    @property
    def tenants(self) -> frozenset[TenantId] | None:
        """Whose data alone the caller may see; None for all."""
        is_bound = self.scopes is not None or "member" in self.roles
        return frozenset(self.projects) if is_bound else None

    def require(self, route: str, project_id: str | None) -> None:
        """Raises 403 if the table does not allow it, and 404 for a project that the caller must not know of."""
        row = ACCESS[route]
        if self.scopes is not None:
            missing = USAGE_SCOPE if "api_key" in row else "admin"
            if missing not in self.scopes:
                raise InsufficientPermissions(missing)
            return
        if project_id is not None and self.tenants is not None and project_id not in self.tenants:
            raise NotFound("No such project.")
        if not all(column in row for column in self._columns(project_id)):
            raise InsufficientPermissions(" or ".join(column for column in COLUMNS if column in row), "role")

    def _columns(self, project_id: str | None) -> set[str]:
        there = self.projects.get(TenantId(project_id)) if project_id is not None else "member"
        return {f"project_{there}" if role == "member" else role for role in self.roles}

    def may(self) -> list[str]:
        """Every row of the table that would let this caller in, in some project at least."""
        if self.scopes is not None:
            return [route for route, row in ACCESS.items() if "api_key" in row and USAGE_SCOPE in self.scopes]
        mine = {f"project_{role}" for role in self.projects.values()} or {"project_member"}
        return [
            route
            for route, row in ACCESS.items()
            if all(bool(mine & row) if role == "member" else role in row for role in self.roles)
        ]


def guarded_route(has_project: Callable[[str], Awaitable[bool]]) -> type[APIRoute]:
    """A class of routes that ask the table first, and then whether the project in their path exists."""

    class GuardedRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()
            path = self.path.removeprefix(PREFIX)

            async def guarded(request: Request) -> Response:
                if f"{request.method} {path}" in OPEN:
                    return await handle(request)
                caller, project_id = request.state.caller, request.path_params.get("project_id")
                assert isinstance(caller, Caller)
                caller.require(f"{request.method} {path}", project_id)
                if project_id is not None and not await has_project(project_id):
                    raise NotFound("No such project.")
                return await handle(request)

            return guarded

    return GuardedRoute
