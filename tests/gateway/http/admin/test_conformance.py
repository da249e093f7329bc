"""Conformance: every call of the stock client's `admin.organization` that we claim, and nothing half served.

The client validates strictly. Each call that it has is either driven here, with every field that we claim asserted,
or is a plain 404. A new call in a newer client fails the first test until somebody decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import openai
import pytest
from openai.types.admin.organization import AdminAPIKey, Project

from tests.fakes.engine import FakeEngine
from tests.gateway.http.admin.clients import admin_client, client_of_empty_answers
from tests.gateway.http.admin.people import admin_key, user
from tests.gateway.http.admin.sdk import Recorder, complete, methods, pages, sample
from tests.gateway.http.description.calls import BY_THE_STRICT_CLIENT
from tests.harness import SERVED, Gateway

CLAIMED = {
    *(f"admin_api_keys.{call}" for call in ("create", "retrieve", "list", "delete")),
    "audit_logs.list",
    *(f"invites.{call}" for call in ("create", "retrieve", "list", "delete")),
    *(f"users.{call}" for call in ("retrieve", "update", "list", "delete")),
    *(f"usage.{call}" for call in ("completions", "embeddings", "costs")),
    *(f"spend_limit.{call}" for call in ("retrieve", "update", "delete")),
    *(f"spend_alerts.{call}" for call in ("create", "retrieve", "update", "list", "delete")),
    *(f"projects.{call}" for call in ("create", "retrieve", "update", "list", "archive")),
    *(f"projects.users.{call}" for call in ("create", "retrieve", "update", "list", "delete")),
    *(f"projects.service_accounts.{call}" for call in ("create", "retrieve", "update", "list", "delete")),
    "projects.service_accounts.api_keys.create",
    *(f"projects.api_keys.{call}" for call in ("retrieve", "update", "list", "delete")),
    *(f"projects.rate_limits.{call}" for call in ("list_rate_limits", "update_rate_limit")),
    *(f"projects.model_permissions.{call}" for call in ("retrieve", "update", "delete")),
    *(f"projects.spend_limit.{call}" for call in ("retrieve", "update", "delete")),
    *(f"projects.spend_alerts.{call}" for call in ("create", "retrieve", "update", "list", "delete")),
}
# What they speak of is not here: 404, as for any path that does not exist.
NOT_SERVED = (
    "certificates.",
    "data_retention.",
    "external_keys.",
    "external_storage.",
    "groups.",
    "roles.",
    "users.roles.",
    "workload_identity_providers.",
    *(
        f"usage.{kind}"
        for kind in (
            "audio_",
            "code_interpreter_sessions",
            "decisions",
            "file_search_calls",
            "images",
            "moderations",
            "vector_stores",
            "web_search_calls",
        )
    ),
    *(
        f"projects.{kind}."
        for kind in (
            "certificates",
            "data_retention",
            "groups",
            "hosted_tool_permissions",
            "roles",
            "service_tier_settings",
            "users.roles",
        )
    ),
)
ALL = dict(methods())
ALERT: dict[str, Any] = {
    "currency": "USD",
    "interval": "month",
    "threshold_amount": 500,
    "notification_channel": {"type": "email", "recipients": ["a@example.com"], "subject_prefix": "[x]"},
}


def test_every_call_of_the_client_is_claimed_or_not_served() -> None:
    assert len(ALL) > 120
    assert set(ALL) >= CLAIMED, "the client has no such call"
    undecided = [name for name in ALL if name not in CLAIMED and not name.startswith(NOT_SERVED)]
    assert not undecided, undecided
    assert not [name for name in CLAIMED if name.startswith(NOT_SERVED)]


@pytest.fixture
def called() -> set[str]:
    return set()


@pytest.fixture
def organization(gateway: Gateway, called: set[str]) -> Any:
    return Recorder(admin_client(gateway).admin.organization, called)


async def walk(call: Any, *args: Any, **query: Any) -> list[Any]:
    """Every object of a list, from at least three pages."""
    found = [page async for page in pages(call, *args, **query)]
    assert len(found) >= 3, "a list must be walked over at least three pages"
    assert all(page.has_more is (page is not found[-1]) for page in found)
    objects = [one for page in found for one in complete(page.data)]
    assert len({one.id for one in objects}) == len(objects)
    return objects


async def test_every_claimed_call(
    organization: Any, called: set[str], gateway: Gateway, engine: FakeEngine
) -> None:
    """One after the other; what each answers is checked where its part of the story is told."""
    project = await the_projects(organization)
    await the_project_keys(organization, gateway, project)
    await the_limits(organization, gateway, engine, project)
    await the_people(organization, gateway, project)
    await gateway.app.directory.last_used.write()
    [mine] = [key async for key in organization.admin_api_keys.list() if key.name == "owner"]
    assert mine.last_used_at >= mine.created_at - 2
    await the_money(organization, project)
    await the_log(organization)
    for call in ("completions", "embeddings", "costs"):
        await the_usage(getattr(organization.usage, call))
    archived = complete(await organization.projects.archive(project))
    assert archived.status == "archived"
    assert archived.archived_at >= archived.created_at
    assert called == CLAIMED
    assert gateway.description.seen >= BY_THE_STRICT_CLIENT


def lives(key: Any, seconds: int) -> bool:
    """Two clocks, the database's and the gateway's, and whole seconds."""
    return abs(key.expires_at - key.created_at - seconds) <= 2


async def the_projects(organization: Any) -> str:
    made = [complete(await organization.projects.create(name=f"p{number}")) for number in range(3)]
    assert [(one.name, one.status, one.archived_at) for one in made] == [
        (f"p{number}", "active", None) for number in range(3)
    ]
    renamed = complete(await organization.projects.update(made[0].id, name="first"))
    assert (renamed.id, renamed.name, renamed.created_at) == (made[0].id, "first", made[0].created_at)
    assert complete(await organization.projects.retrieve(made[0].id)) == renamed
    listed = await walk(organization.projects.list, limit=1)
    assert [one.id for one in listed] == [one.id for one in reversed(made)]
    return str(made[0].id)


async def the_project_keys(organization: Any, gateway: Gateway, project: str) -> None:
    accounts, keys = organization.projects.service_accounts, organization.projects.api_keys
    made = [
        complete(await accounts.create(project, name=f"a{number}", expires_in_seconds=3600))
        for number in range(3)
    ]
    first = made[0]
    assert (first.role, first.api_key.name) == ("member", "a0")
    assert lives(first.api_key, 3600)
    changed = complete(await accounts.update(first.id, project_id=project, name="robot", role="owner"))
    assert (changed.name, changed.role) == ("robot", "owner")
    assert complete(await accounts.retrieve(first.id, project_id=project)) == changed
    assert [one.id for one in await walk(accounts.list, project, limit=1)] == [one.id for one in made[::-1]]
    extra = complete(
        await accounts.api_keys.create(
            first.id, project_id=project, name="extra", expires_in_seconds=60, scopes=["usage.read"]
        )
    )
    assert extra.name == "extra"
    assert lives(extra, 60)
    found = complete(await keys.retrieve(extra.id, project_id=project))
    assert (found.name, found.last_used_at, found.owner_project_access) == ("extra", None, "active")
    assert found.redacted_value == f"tw-{extra.value.split('-')[1]}-***"
    assert (found.owner.type, found.owner.user) == ("service_account", None)
    owner = found.owner.service_account
    assert (owner.id, owner.name, owner.role, owner.created_at) == (
        first.id,
        "robot",
        "owner",
        changed.created_at,
    )
    later = complete(
        await keys.update(extra.id, project_id=project, expires_in_seconds=7200, scopes=["model.request"])
    )
    assert later.expires_at > found.expires_at
    assert later.scopes == ["model.request"]
    assert len(await walk(keys.list, project, limit=1)) == 4
    gone = complete(await keys.delete(extra.id, project_id=project))
    assert (gone.id, gone.deleted) == (extra.id, True)
    gone = complete(await accounts.delete(first.id, project_id=project))
    assert (gone.id, gone.deleted) == (first.id, True)


async def the_limits(organization: Any, gateway: Gateway, engine: FakeEngine, project: str) -> None:
    rates, permissions = organization.projects.rate_limits, organization.projects.model_permissions
    pool_id = await gateway.pool(engine)
    for name in (SERVED, "other", "third"):
        await gateway.route(pool_id, name)
    found = await walk(rates.list_rate_limits, project, limit=1)
    assert [one.model for one in found] == sorted([SERVED, "other", "third"])
    changed = complete(
        await rates.update_rate_limit(
            found[0].id,
            project_id=project,
            max_requests_per_1_minute=5,
            max_tokens_per_1_minute=500,
            max_requests_per_1_day=50,
        )
    )
    assert (changed.id, changed.model) == (found[0].id, found[0].model)
    assert changed.max_requests_per_1_minute == 5
    assert (changed.max_tokens_per_1_minute, changed.max_requests_per_1_day) == (500, 50)
    made = complete(await permissions.update(project, mode="deny_list", model_ids=["other"]))
    assert (made.mode, made.api_model_ids) == ("deny_list", ["other"])
    assert complete(await permissions.retrieve(project)) == made
    assert complete(await permissions.delete(project)).deleted


async def the_people(organization: Any, gateway: Gateway, project: str) -> None:
    ids = [await user(gateway, "viewer", f"u{number}") for number in range(3)]
    members = organization.projects.users
    for user_id in ids:
        complete(await members.create(project, role="member", user_id=user_id))
    assert [one.id for one in await walk(members.list, project, limit=1)] == ids[::-1]
    member = complete(await members.update(ids[0], project_id=project, role="owner"))
    assert (member.role, member.email, member.name) == ("owner", "u0@example.com", "u0")
    assert complete(await members.retrieve(ids[0], project_id=project)) == member
    users = organization.users
    assert [one.id for one in await walk(users.list, limit=1)][:3] == ids[::-1]
    changed = complete(await users.update(ids[0], role="billing"))
    assert (changed.role, changed.email, changed.name, changed.created) == (
        "billing",
        "u0@example.com",
        "u0",
        changed.added_at,
    )
    assert (changed.is_service_account, changed.is_scim_managed) == (False, False)
    assert [(one.id, one.name, one.role) for one in changed.projects.data] == [(project, "first", "owner")]
    nested = changed.user
    assert (nested.id, nested.email, nested.name, nested.enabled) == (ids[0], "u0@example.com", "u0", True)
    assert complete(await users.retrieve(ids[0])) == changed
    assert complete(await members.delete(ids[0], project_id=project)).deleted
    await the_admin_keys(organization, gateway, ids[0])
    assert complete(await users.delete(ids[0])).deleted
    invites = organization.invites
    made = [
        complete(
            await invites.create(
                email=f"i{number}@example.com", role="reader", projects=[{"id": project, "role": "member"}]
            )
        )
        for number in range(3)
    ]
    first = made[0]
    assert (first.email, first.role, first.status, first.accepted_at) == (
        "i0@example.com",
        "reader",
        "pending",
        None,
    )
    assert first.expires_at == first.created_at + 7 * 86_400
    assert [(one.id, one.role) for one in first.projects] == [(project, "member")]
    kept = complete(await invites.retrieve(first.id)).model_dump()
    once = {"accept_url", "mailed", "mail_error"}
    assert kept == {name: value for name, value in first.model_dump().items() if name not in once}
    assert [one.id for one in await walk(invites.list, limit=1)] == [one.id for one in made[::-1]]
    assert complete(await invites.delete(first.id)).deleted


async def the_admin_keys(organization: Any, gateway: Gateway, user_id: str) -> None:
    await admin_key(gateway, "billing", user_id)
    keys = organization.admin_api_keys
    made = complete(await keys.create(name="mine", expires_in_seconds=60))
    assert (made.name, made.last_used_at) == ("mine", None)
    assert lives(made, 60)
    assert made.redacted_value == f"tw-{made.value.split('-')[1]}-***"
    owner = made.owner
    assert (owner.type, owner.object, owner.role, owner.name) == (
        "user",
        "organization.user",
        "owner",
        "owner",
    )
    assert owner.created_at <= made.created_at
    found = complete(await keys.retrieve(made.id))
    assert isinstance(found, AdminAPIKey)
    assert found.owner.id == owner.id
    listed = await walk(keys.list, limit=1, order="asc")
    assert [one.id for one in listed][-1] == made.id
    assert listed[1].owner.id == user_id
    assert complete(await keys.delete(made.id)).deleted


async def the_money(organization: Any, project: str) -> None:
    for resource, scope in ((organization.spend_limit, ()), (organization.projects.spend_limit, (project,))):
        wanted = {"currency": "USD", "interval": "month", "threshold_amount": 1234}
        made = complete(await resource.update(*scope, **wanted))
        assert (made.currency, made.interval, made.threshold_amount) == ("USD", "month", 1234)
        assert made.enforcement.status == "inactive"
        assert complete(await resource.retrieve(*scope)) == made
        assert complete(await resource.delete(*scope)).deleted
    for resource, scope, one in (
        (organization.spend_alerts, (), {}),
        (organization.projects.spend_alerts, (project,), {"project_id": project}),
    ):
        made = [complete(await resource.create(*scope, **ALERT)) for _ in range(3)]
        assert made[0].to_dict() | ALERT == made[0].to_dict()
        changed = complete(await resource.update(made[0].id, **one, **(ALERT | {"threshold_amount": 700})))
        assert (changed.id, changed.threshold_amount) == (made[0].id, 700)
        assert complete(await resource.retrieve(made[0].id, **one)) == changed
        assert [alert.id for alert in await walk(resource.list, *scope, limit=1)] == [
            alert.id for alert in made[::-1]
        ]
        assert complete(await resource.delete(made[0].id, **one)).deleted


async def the_log(organization: Any) -> None:
    logs = await walk(organization.audit_logs.list, limit=20)
    kinds = {log.type for log in logs}
    assert kinds >= {
        *("project.created", "project.updated", "api_key.created", "api_key.updated", "api_key.deleted"),
        *("service_account.created", "service_account.updated", "service_account.deleted"),
        *("rate_limit.updated", "user.added", "user.updated", "user.deleted"),
        *("invite.sent", "invite.deleted", "organization.updated"),
        *("tenant.admin_api_key.created", "tenant.admin_api_key.deleted"),
    }
    details = {log.type: log for log in logs}
    assert details["rate_limit.updated"].rate_limit_updated.changes_requested.max_requests_per_1_minute == 5
    assert details["invite.sent"].invite_sent.data.role == "viewer"
    assert details["service_account.updated"].service_account_updated.changes_requested.role == "owner"
    assert {log.actor.api_key.type for log in logs if log.actor.type == "api_key"} == {"user"}

    for log in logs:
        assert {"before", "after"} & set(log.details), log.action
        assert not re.search(r"tw-[a-z2-7]{8}-[A-Za-z0-9_-]{43}", log.to_json()), log.action


async def the_usage(call: Any) -> None:
    day, found, query = 86_400, [], {}
    while True:
        page = complete(await call(start_time=0, end_time=3 * day, limit=1, **query))
        found += page.data
        if not page.has_more:
            break
        query = {"page": page.next_page}
    assert [(bucket.start_time, bucket.end_time) for bucket in found] == [
        (number * day, (number + 1) * day) for number in range(3)
    ]


async def test_what_is_not_served_is_not_found(gateway: Gateway) -> None:
    organization = admin_client(gateway).admin.organization
    variant = {"external_id": "x", "kms_arn": "x", "role_arn": "x"}  # of the one call that has several forms
    served = []
    for name in sorted(set(ALL) - CLAIMED):
        arguments = sample(ALL[name]) | (variant if name == "external_keys.create" else {})
        with pytest.raises(openai.APIStatusError) as refused:
            await _method(organization, name)(**arguments)
        if refused.value.status_code not in (404, 405) or refused.value.type != "invalid_request_error":
            served.append(f"{name}: {refused.value}")
    assert not served, "\n".join(served)


async def test_an_answer_of_nothing_would_fail() -> None:
    """The mutant: a server that answers `{}` to everything passes no call, whatever is asserted afterwards."""
    async with client_of_empty_answers() as client:
        for name in sorted(CLAIMED):
            call = _method(client.admin.organization, name)
            with pytest.raises(openai.APIResponseValidationError):
                await call(**sample(ALL[name]))


def test_a_field_that_is_missing_would_fail() -> None:
    """The other mutant: an optional field left out is valid for the client, and not for us."""
    whole = {"id": "p", "created_at": 1, "object": "organization.project", "name": "n"}
    whole |= {"status": "active", "archived_at": None}
    complete(Project.model_validate(whole))
    for name in ("name", "status", "archived_at"):
        rest = {key: value for key, value in whole.items() if key != name}
        with pytest.raises(AssertionError, match=name):
            complete(Project.model_validate(rest))


@pytest.mark.parametrize(
    ("kind", "act"),
    [
        (openai.NotFoundError, lambda at: at.projects.retrieve("proj_none")),
        (openai.BadRequestError, lambda at: at.projects.create(name="")),
        (openai.BadRequestError, lambda at: at.users.list(limit=1000)),
        (openai.ConflictError, lambda at: at.users.delete("owner")),
    ],
)
async def test_errors_are_typed(
    kind: type[openai.APIStatusError], act: Callable[[Any], Any], gateway: Gateway
) -> None:
    await gateway.sql("UPDATE admin_api_key SET user_id = NULL")
    await gateway.sql("UPDATE organization_user SET deleted_at = now()")
    await gateway.sql("INSERT INTO organization_user (id, name, role) VALUES ('owner', 'o', 'owner')")
    await gateway.sql("UPDATE admin_api_key SET user_id = 'owner'")
    await gateway.refresh()
    with pytest.raises(kind) as refused:
        await act(admin_client(gateway).admin.organization)
    assert refused.value.type == "invalid_request_error"
    assert refused.value.message


def _method(organization: Any, name: str) -> Any:
    for part in name.split("."):
        organization = getattr(organization, part)
    return organization
