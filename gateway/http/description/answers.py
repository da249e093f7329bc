"""What each route of the admin API answers with: `METHOD /path` → shape. A route without a row fails a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.http.description.shapes import console, money, people, pools, slo, tenancy, usage, webhooks
from gateway.http.description.shapes.common import CursorPage, Deleted, Json, Page

__all__ = ["ADMIN_ANSWERS", "Shape"]

Shape = Any
"""A type that pydantic can describe; None for content that is no JSON."""

_PROJECT = "/projects/{project_id}"
_ACCOUNTS, _KEYS, _LIMITS = f"{_PROJECT}/service_accounts", f"{_PROJECT}/api_keys", f"{_PROJECT}/limits"


def _resource(path: str, one: str, shape: Shape, created: Shape = None) -> dict[str, Shape]:
    """The five routes of an ordinary resource."""
    return {
        f"POST {path}": created or shape,
        f"GET {path}": Page[shape],
        f"GET {path}/{{{one}}}": shape,
        f"POST {path}/{{{one}}}": shape,
        f"DELETE {path}/{{{one}}}": Deleted,
    }


def _spend(prefix: str) -> dict[str, Shape]:
    return {
        **_resource(f"{prefix}/spend_alerts", "alert_id", money.SpendAlert),
        f"GET {prefix}/spend_limit": money.SpendLimit,
        f"POST {prefix}/spend_limit": money.SpendLimit,
        f"DELETE {prefix}/spend_limit": money.SpendLimitDeleted,
    }


def _hooks(prefix: str) -> dict[str, Shape]:
    """Of the operator's webhook endpoints, and of a project's."""
    hook = f"{prefix}/webhook_endpoints/{{endpoint_id}}"
    return {
        **_resource(
            f"{prefix}/webhook_endpoints",
            "endpoint_id",
            webhooks.OperatorEndpoint,
            created=webhooks.NewOperatorEndpoint,
        ),
        f"DELETE {hook}": webhooks.EndpointDeleted,
        f"POST {hook}/rotate_secret": webhooks.NewOperatorEndpoint,
        f"POST {hook}/test": webhooks.OperatorEndpointTested,
        f"POST {hook}/enable": webhooks.OperatorEndpoint,
        f"GET {hook}/deliveries": Page[webhooks.Delivery],
        f"GET {hook}/deliveries/{{delivery_id}}": webhooks.DeliveryDetail,
        f"POST {hook}/deliveries/{{delivery_id}}/replay": webhooks.DeliveryDetail,
        f"GET {prefix}/webhook_event_types": webhooks.EventTypes,
    }


ADMIN_ANSWERS: Mapping[str, Shape] = {
    "POST /projects": tenancy.Project,
    "GET /projects": Page[tenancy.Project],
    f"GET {_PROJECT}": tenancy.Project,
    f"POST {_PROJECT}": tenancy.Project,
    f"POST {_PROJECT}/archive": tenancy.Project,
    f"GET {_PROJECT}/model_permissions": tenancy.ModelPermissions,
    f"POST {_PROJECT}/model_permissions": tenancy.ModelPermissions,
    f"DELETE {_PROJECT}/model_permissions": tenancy.ModelPermissionsDeleted,
    f"GET {_PROJECT}/idempotency": tenancy.Idempotency,
    f"POST {_PROJECT}/idempotency": tenancy.Idempotency,
    f"GET {_PROJECT}/outage_allowance": money.OutageAllowance,
    f"POST {_PROJECT}/outage_allowance": money.OutageAllowance,
    **_resource(_ACCOUNTS, "account_id", tenancy.ServiceAccount, created=tenancy.NewServiceAccount),
    f"POST {_ACCOUNTS}/{{account_id}}/api_keys": tenancy.ServiceAccountKey,
    **_resource(_KEYS, "key_id", tenancy.ApiKey, created=tenancy.NewApiKey),
    f"POST {_KEYS}/{{key_id}}/rotate": tenancy.RotatedApiKey,
    f"GET {_LIMITS}": Page[tenancy.Limits],
    f"POST {_LIMITS}": tenancy.Limits,
    f"DELETE {_LIMITS}/{{limit_id}}": Deleted,
    f"GET {_PROJECT}/rate_limits": Page[tenancy.RateLimit],
    f"POST {_PROJECT}/rate_limits/{{rate_limit_id}}": tenancy.RateLimit,
    **_resource(f"{_PROJECT}/users", "user_id", tenancy.Member),
    **_resource("/users", "user_id", tenancy.User),
    "POST /admin_api_keys": tenancy.NewAdminKey,
    "GET /admin_api_keys": Page[tenancy.AdminKey],
    "GET /admin_api_keys/{key_id}": tenancy.AdminKey,
    "DELETE /admin_api_keys/{key_id}": Deleted,
    "POST /invites": people.LinkedInvite,
    "POST /invites/{invite_id}/link": people.LinkedInvite,
    "POST /invitations/lookup": people.Invitation,
    "POST /invitations/accept": people.GrantedSession,
    "POST /users/{user_id}/password_link": people.PasswordLink,
    "POST /password_resets": people.PasswordResetRequested,
    "POST /password_resets/lookup": people.PasswordReset,
    "POST /password_resets/accept": people.GrantedSession,
    "GET /sessions/methods": people.SignInMethods,
    "GET /identity_provider": people.IdentityProvider,
    "POST /identity_provider": people.IdentityProvider,
    "DELETE /identity_provider": people.IdentityProviderDeleted,
    "GET /me": people.Me,
    "GET /overview": console.Overview,
    "GET /search": console.Found,
    "POST /me/password": people.PasswordChanged,
    "POST /sessions": people.GrantedSession,
    "GET /sessions": Page[people.Session],
    "POST /sessions/refresh": people.GrantedSession,
    "POST /sessions/logout": people.SessionEnded,
    "POST /sessions/logout_everywhere": people.SessionEnded,
    "DELETE /sessions/{session_id}": Deleted,
    "GET /invites": Page[tenancy.Invite],
    "GET /invites/{invite_id}": tenancy.Invite,
    "DELETE /invites/{invite_id}": Deleted,
    "POST /invites/{invite_id}/accept": tenancy.User,
    "GET /audit_logs": Page[tenancy.AuditLog],
    **_resource("/pools", "pool_id", pools.Pool),
    "PATCH /pools/{pool_id}": pools.Pool,
    "POST /pools/{pool_id}/switch": Page[pools.Route],
    "GET /replicas": Page[pools.Replica],
    "GET /replicas/{replica_id}": pools.Replica,
    **_resource("/routes", "route_id", pools.Route),
    "PATCH /routes/{route_id}": pools.Route,
    "GET /prices": Page[pools.Price],
    "POST /prices": Page[pools.Price],
    **_resource("/budgets", "budget_id", money.Budget, created=money.ChangedBudget),
    "POST /budgets/{budget_id}": money.ChangedBudget,
    "GET /budgets/{budget_id}/periods": Page[money.BudgetPeriod],
    **_resource("/budgets/{budget_id}/alerts", "alert_id", money.BudgetAlert),
    "GET /alerts": Page[money.AlertRecord],
    "GET /alerts/{record_id}": money.AlertRecordDetail,
    **_spend(""),
    **_spend(_PROJECT),
    "POST /credits": money.Credit,
    "GET /credits": Page[money.Credit],
    "GET /credits/{credit_id}": money.Credit,
    "POST /adjustments": money.Adjustment,
    "GET /adjustments": Page[money.Adjustment],
    "GET /adjustments/{adjustment_id}": money.Adjustment,
    "POST /exports": money.Export,
    "GET /exports": Page[money.Export],
    "GET /exports/{export_id}": money.Export,
    "GET /exports/{export_id}/files/{name}": None,
    "POST /stripe_customers": money.StripeCustomer,
    "GET /stripe_customers": Page[money.StripeCustomer],
    "GET /meter_events": Page[money.MeterEvent],
    "GET /usage/completions": CursorPage[usage.CompletionsBucket],
    "GET /usage/embeddings": CursorPage[usage.EmbeddingsBucket],
    "GET /usage/breakdown": usage.Breakdown,
    "GET /usage/usual": usage.Usual,
    "GET /costs": CursorPage[usage.CostsBucket],
    "GET /requests": CursorPage[usage.RequestLine],
    "GET /requests/{request_id}": usage.RequestDetail,
    "GET /usage_events": Page[usage.UsageEvent],
    **_resource("/objectives", "objective_id", slo.Objective),
    "GET /alert_episodes": Page[slo.AlertEpisode],
    "GET /alert_episodes/{episode_id}": slo.AlertEpisode,
    "GET /alert_silences": Page[slo.AlertSilence],
    "POST /alert_silences": slo.AlertSilence,
    "GET /alert_silences/{silence_id}": slo.AlertSilence,
    "DELETE /alert_silences/{silence_id}": Deleted,
    "GET /pools/{pool_id}/samples": CursorPage[slo.PoolSample],
    "GET /slo/board": CursorPage[slo.SloLine],
    "GET /slo/series": CursorPage[slo.SloBucket],
    **_hooks(""),
    **_hooks(_PROJECT),
    "GET /openapi.json": Json,
}
