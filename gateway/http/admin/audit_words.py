"""Audit rows in OpenAI's words: a type of its list, and under that type's name what it holds. Pure.

OpenAI's list is closed, and its client refuses other words. What it has no word for is `project.updated` or
`organization.updated`, depending on whose it is; our own word is beside it, as `action`, and can be filtered by too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gateway.audit.repository import Actions, AuditEntry

__all__ = ["actions_of", "payload_of", "type_of"]

Json = dict[str, Any]
_OF_PROJECT = "project.updated"
_OF_ORGANIZATION = "organization.updated"
_RENAMED = {
    "admin_api_key.created": "tenant.admin_api_key.created",
    "admin_api_key.deleted": "tenant.admin_api_key.deleted",
    "api_key.rotated": "api_key.updated",
}
_TENANT_ONLY = "tenant."


def type_of(entry: AuditEntry) -> str:
    if entry.action in _PAYLOADS:
        return entry.action
    return _RENAMED.get(entry.action) or (_OF_PROJECT if entry.tenant_id is not None else _OF_ORGANIZATION)


def actions_of(event_types: Sequence[str], *, tenant_only: bool) -> Actions | None:
    """The actions that these types stand for; None when nothing is asked for."""
    if not event_types and not tenant_only:
        return None
    asked = set(event_types) or set(_RENAMED.values())
    if tenant_only:
        asked = {word for word in asked if word.startswith(_TENANT_ONLY)}
    named = asked | {ours for ours, theirs in _RENAMED.items() if theirs in asked}
    return Actions(
        frozenset(named),
        frozenset(_PAYLOADS) | frozenset(_RENAMED),
        others_of_projects=_OF_PROJECT in asked,
        others_of_organization=_OF_ORGANIZATION in asked,
    )


def payload_of(entry: AuditEntry) -> Json:
    """What stands under the type's name; nothing for types that the client has no field for."""
    kind = type_of(entry)
    if kind.startswith(_TENANT_ONLY):
        return {}
    make = _PAYLOADS.get(entry.action) or (_PAYLOADS[kind] if entry.action in _RENAMED else _other(kind))
    of_project = kind == _OF_PROJECT and entry.tenant_id is not None
    return {kind: {"id": entry.tenant_id if of_project else entry.resource_id, **make(entry.details)}}


def _other(kind: str) -> Callable[[Mapping[str, Any]], Json]:
    """What OpenAI has no word for changes nothing that it has a word for."""
    return lambda details: {"changes_requested": {"title": None}} if kind == _OF_PROJECT else {}


def _nothing(details: Mapping[str, Any]) -> Json:
    return {}


def _data(*names: str) -> Callable[[Mapping[str, Any]], Json]:
    return lambda details: {"data": _some(details, names)}


def _changes(*names: str) -> Callable[[Mapping[str, Any]], Json]:
    return lambda details: {"changes_requested": _some(details, names)}


def _some(details: Mapping[str, Any], names: Sequence[str]) -> Json:
    after = details.get("after") or {}
    return {name: after[name] for name in names if name in after}


def _project(details: Mapping[str, Any]) -> Json:
    name = (details.get("after") or {}).get("name")
    return {"data": {"name": name, "title": name}}


def _renamed_project(details: Mapping[str, Any]) -> Json:
    return {"changes_requested": {"title": (details.get("after") or {}).get("name")}}


def _rate_limit(details: Mapping[str, Any]) -> Json:
    after = details.get("after") or {}
    return {
        "changes_requested": {
            "max_requests_per_1_minute": after.get("requests_per_min"),
            "max_tokens_per_1_minute": after.get("tokens_per_min"),
            "max_requests_per_1_day": after.get("requests_per_day"),
        }
    }


_PAYLOADS: Mapping[str, Callable[[Mapping[str, Any]], Json]] = {
    "project.created": _project,
    _OF_PROJECT: _renamed_project,
    "project.archived": _nothing,
    "service_account.created": _data("role"),
    "service_account.updated": _changes("role"),
    "service_account.deleted": _nothing,
    "api_key.created": _data("scopes"),
    "api_key.updated": _changes("scopes"),
    "api_key.deleted": _nothing,
    "rate_limit.updated": _rate_limit,
    "rate_limit.deleted": _nothing,
    "user.added": _data("role"),
    "user.updated": _changes("role"),
    "user.deleted": _nothing,
    "invite.sent": _data("email", "role"),
    "invite.accepted": _nothing,
    "invite.deleted": _nothing,
    "login.succeeded": _nothing,
    "login.failed": lambda details: _some(details, ("error_code",)),
    "logout.succeeded": _nothing,
}
