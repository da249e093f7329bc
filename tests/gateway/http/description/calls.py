"""Which routes the conformance test calls through the strict client, and therefore nobody else has to."""

from __future__ import annotations

__all__ = ["BY_THE_STRICT_CLIENT"]

_PREFIX = "/v1/organization"


def _of(path: str, one: str, methods: str = "POST GET POST/ GET/ DELETE/") -> set[str]:
    return {
        f"{method.rstrip('/')} {_PREFIX}{path}" + (f"/{{{one}}}" if method.endswith("/") else "")
        for method in methods.split()
    }


_PROJECT = "/projects/{project_id}"
BY_THE_STRICT_CLIENT = {
    *_of("/projects", "project_id", "POST GET POST/ GET/"),
    *_of(_PROJECT + "/archive", "", "POST"),
    *_of(_PROJECT + "/service_accounts", "account_id"),
    *_of(_PROJECT + "/service_accounts/{account_id}/api_keys", "", "POST"),
    *_of(_PROJECT + "/api_keys", "key_id", "GET POST/ GET/ DELETE/"),
    *_of(_PROJECT + "/users", "user_id"),
    *_of(_PROJECT + "/rate_limits", "rate_limit_id", "GET POST/"),
    *_of(_PROJECT + "/model_permissions", "", "GET POST DELETE"),
    *_of("/users", "user_id", "POST GET POST/ GET/ DELETE/"),
    *_of("/invites", "invite_id", "POST GET GET/ DELETE/"),
    *_of("/admin_api_keys", "key_id", "POST GET GET/ DELETE/"),
    *_of("/audit_logs", "", "GET"),
    *(route for scope in ("", _PROJECT) for route in _of(scope + "/spend_alerts", "alert_id")),
    *(route for scope in ("", _PROJECT) for route in _of(scope + "/spend_limit", "", "GET POST DELETE")),
}
