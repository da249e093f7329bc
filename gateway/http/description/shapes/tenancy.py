"""Projects, their keys and accounts, limits, users, the audit log."""

from __future__ import annotations

from typing import Literal, NotRequired

from pydantic import with_config
from typing_extensions import TypedDict

from gateway.http.description.shapes.common import OPEN, Json

__all__ = [
    "AdminKey",
    "ApiKey",
    "AuditLog",
    "Idempotency",
    "Invite",
    "Limits",
    "Member",
    "ModelPermissions",
    "ModelPermissionsDeleted",
    "NewAdminKey",
    "NewApiKey",
    "NewServiceAccount",
    "Project",
    "RateLimit",
    "Role",
    "RotatedApiKey",
    "ServiceAccount",
    "ServiceAccountKey",
    "User",
    "UserProject",
]

Role = Literal["owner", "admin", "billing", "viewer", "member"]
ProjectRole = Literal["owner", "member"]


class Project(TypedDict):
    object: Literal["organization.project"]
    id: str
    name: str
    status: Literal["active", "archived"]
    created_at: int
    archived_at: int | None
    fairness_weight: int


class ModelPermissions(TypedDict):
    object: Literal["project.model_permissions"]
    mode: Literal["allow_list", "deny_list"]
    model_ids: list[str]


class ModelPermissionsDeleted(TypedDict):
    object: Literal["project.model_permissions.deleted"]
    deleted: bool


class KeyAccount(TypedDict):
    id: str
    name: str
    role: str
    created_at: int


class KeyUser(TypedDict):
    id: str
    name: str
    email: str | None
    created_at: int


class ApiKeyOwner(TypedDict):
    type: Literal["service_account", "user"] | None
    service_account: KeyAccount | None
    user: KeyUser | None
    """Whose requests from the console the key stands for."""


class ApiKey(TypedDict):
    object: Literal["organization.project.api_key"]
    id: str
    name: str
    redacted_value: str
    created_at: int
    last_used_at: int | None
    expires_at: int | None
    owner: ApiKeyOwner
    owner_project_access: Literal["active", "inactive"]
    scopes: list[str]
    ip_allow_list: list[str]


class NewApiKey(ApiKey):
    """`value` is in this answer and in no other."""

    value: str


class RotatedApiKey(ApiKey):
    """`value` is null when the same rotation is asked for again."""

    value: str | None


class ServiceAccount(TypedDict):
    object: Literal["organization.project.service_account"]
    id: str
    name: str
    role: Literal["owner", "member", "none"]
    created_at: int


class ServiceAccountKey(TypedDict):
    """`value` is in this answer and in no other."""

    object: Literal["organization.project.service_account.api_key"]
    id: str
    name: str
    created_at: int
    expires_at: int | None
    value: str


class NewServiceAccount(ServiceAccount):
    api_key: ServiceAccountKey | None


class Limits(TypedDict):
    """Of one scope. Null is no such limit."""

    object: Literal["organization.project.limits"]
    id: str
    project_id: str
    key_id: str | None
    served_model: str | None
    requests_per_min: int | None
    requests_burst: int | None
    tokens_per_min: int | None
    requests_per_day: int | None
    concurrent_requests: int | None
    max_prompt_tokens: int | None
    max_output_tokens: int | None
    updated_at: int


class RateLimit(TypedDict):
    object: Literal["project.rate_limit"]
    id: str
    model: str
    max_requests_per_1_minute: int
    max_tokens_per_1_minute: int
    max_requests_per_1_day: int


class Member(TypedDict):
    object: Literal["organization.project.user"]
    id: str
    name: str
    email: str | None
    role: ProjectRole
    added_at: int


class AdminKeyOwner(TypedDict):
    type: Literal["user"]
    object: Literal["organization.user"]
    id: str | None
    name: str | None
    created_at: int | None
    role: Role | None


class AdminKey(TypedDict):
    object: Literal["organization.admin_api_key"]
    id: str
    name: str
    redacted_value: str
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    owner: AdminKeyOwner
    role: Role
    ip_allow_list: list[str]


class NewAdminKey(AdminKey):
    """`value` is in this answer and in no other."""

    value: str


class UserProject(TypedDict):
    id: str
    name: str
    role: ProjectRole


class UserProjects(TypedDict):
    object: Literal["list"]
    data: list[UserProject]


class UserIdentity(TypedDict):
    object: Literal["user"]
    id: str
    name: str
    email: str | None
    enabled: bool
    banned: bool
    banned_at: None


class User(TypedDict):
    object: Literal["organization.user"]
    id: str
    name: str
    email: str | None
    role: Role
    added_at: int
    created: int
    is_service_account: bool
    is_scim_managed: bool
    projects: UserProjects
    user: UserIdentity


class InviteProject(TypedDict):
    id: str
    role: ProjectRole


class Invite(TypedDict):
    """`role` is the nearest that OpenAI knows; `organization_role` is what it is."""

    object: Literal["organization.invite"]
    id: str
    email: str
    role: Literal["owner", "reader"]
    organization_role: Role
    projects: list[InviteProject]
    status: Literal["accepted", "expired", "pending"]
    created_at: int
    expires_at: int
    accepted_at: int | None


class Idempotency(TypedDict):
    object: Literal["organization.project.idempotency"]
    project_id: str
    enabled: bool


class AuditProject(TypedDict):
    id: str
    name: str | None


class AuditUser(TypedDict):
    id: str
    email: str | None


class AuditAccount(TypedDict):
    id: str


class AuditKey(TypedDict):
    id: str
    type: Literal["user", "service_account"] | None
    user: NotRequired[AuditUser]
    service_account: NotRequired[AuditAccount]


class AuditSession(TypedDict):
    ip_address: str | None
    user: AuditUser


class AuditSystem(TypedDict):
    id: str


class AuditActor(TypedDict):
    type: Literal["api_key", "session"] | None
    api_key: AuditKey | None
    session: AuditSession | None
    system: NotRequired[AuditSystem]
    ip_address: NotRequired[str | None]


class AuditResource(TypedDict):
    type: str
    id: str


@with_config(OPEN)
class AuditLog(TypedDict):
    """Under the name that `type` says there is what OpenAI has words for; `action` and `details` are ours."""

    id: str
    type: str
    effective_at: int
    project: AuditProject | None
    actor: AuditActor
    action: str
    resource: AuditResource
    details: Json
    request_id: str | None
