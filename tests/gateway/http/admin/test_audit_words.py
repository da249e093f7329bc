"""Every action of ours has a type that OpenAI's client knows, and can be asked for by it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from openai.types.admin.organization import AuditLogListResponse

from gateway.audit.repository import AuditEntry
from gateway.http.admin.audit_words import actions_of, payload_of, type_of
from gateway.ids import TenantId

TYPES = set(get_args(AuditLogListResponse.model_fields["type"].annotation))
ACTIONS = sorted(
    {
        action
        for path in (Path(__file__).parents[4] / "gateway").rglob("*.py")
        for action in re.findall(
            r'"([a-z_]+\.(?:created|updated|deleted|archived|rotated|added|sent|accepted))"', path.read_text()
        )
    }
    - TYPES
    | {"project.created", "api_key.updated", "user.added", "invite.sent"}
)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("tenant", [TenantId("proj_1"), None])
def test_each_action_has_a_type(action: str, tenant: TenantId | None) -> None:
    details = {"before": {"role": "a"}, "after": {"name": "n", "role": "b", "scopes": ["model.request"]}}
    entry = AuditEntry(action, "kind", "id_1", tenant, details)
    kind = type_of(entry)
    assert kind in TYPES
    AuditLogListResponse.model_validate(
        {"id": "a", "effective_at": 0, "type": kind, **payload_of(entry)}, strict=True
    )
    asked = actions_of([kind], tenant_only=False)
    assert asked is not None
    others = asked.others_of_projects if tenant is not None else asked.others_of_organization
    assert action in asked.named or (action not in asked.known and others)
    own = actions_of([action], tenant_only=False)
    assert own is not None
    assert action in own.named


def test_what_is_not_asked_for_is_not_found() -> None:
    assert actions_of([], tenant_only=False) is None
    asked = actions_of(["organization.updated"], tenant_only=False)
    assert asked is not None
    assert (asked.others_of_projects, asked.others_of_organization) == (False, True)
    assert "project.created" in asked.known, "what has a word of its own is not among the others"
    only = actions_of([], tenant_only=True)
    assert only is not None
    assert only.named == {
        "admin_api_key.created",
        "admin_api_key.deleted",
        "tenant.admin_api_key.created",
        "tenant.admin_api_key.deleted",
    }
