"""The stock client's admin resources, walked and recorded: what there is to call, what was called, what came back."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import cached_property
from typing import Any

from openai._models import BaseModel
from openai._resource import AsyncAPIResource
from openai.pagination import AsyncConversationCursorPage, AsyncCursorPage
from openai.resources.admin.organization import AsyncOrganization

__all__ = ["Recorder", "complete", "methods", "pages", "sample"]

WRAPPERS = ("with_raw_response", "with_streaming_response")
OPTIONS = ("extra_headers", "extra_query", "extra_body", "timeout")

# Optional fields of the client's types that we do not answer, because what they speak of is not here.
NOT_CLAIMED: Mapping[str, set[str]] = {
    "Project": {"external_key_id", "residency"},
    "OrganizationUser": {
        "api_key_last_used_at",
        "developer_persona",
        "is_default",
        "is_scale_tier_authorized_purchaser",
        "technical_level",
    },
    "User": {"picture"},
    "ProjectRateLimit": {
        "batch_1_day_max_input_tokens",
        "max_audio_megabytes_per_1_minute",
        "max_images_per_1_minute",
    },
    "AuditLogListResponse": set(),
    "ActorAPIKey": {"service_account", "user"},
    "OrganizationUpdated": {"changes_requested"},
    "RateLimitUpdatedChangesRequested": {
        "batch_1_day_max_input_tokens",
        "max_audio_megabytes_per_1_minute",
        "max_images_per_1_minute",
    },
    "APIKeyUpdatedChangesRequested": {"expires_in_seconds", "scopes"},
}
ONE_OF_MANY = {"AuditLogListResponse": {"id", "effective_at", "type", "actor", "project"}}
"""Types with a field for each kind: claimed are these, and the field of the kind that it is."""


class Recorder:
    """A resource whose calls leave their dotted names in `called`."""

    def __init__(self, resource: AsyncAPIResource, called: set[str], path: str = "") -> None:
        self._resource = resource
        self._called = called
        self._path = path

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._resource, name)
        path = f"{self._path}.{name}".lstrip(".")
        if isinstance(found, AsyncAPIResource):
            return Recorder(found, self._called, path)

        def call(*args: Any, **kwargs: Any) -> Any:
            self._called.add(path)
            return found(*args, **kwargs)

        return call


def methods(kind: type = AsyncOrganization, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every call of the client's `admin.organization`, by its dotted name."""
    for name, member in vars(kind).items():
        if name.startswith("_") or name in WRAPPERS:
            continue
        here = f"{path}.{name}".lstrip(".")
        if isinstance(member, property | cached_property):
            get = member.fget if isinstance(member, property) else member.func
            returned = inspect.get_annotations(get, eval_str=False)["return"]
            module = inspect.getmodule(kind)
            child = getattr(module, returned) if isinstance(returned, str) else returned
            yield from methods(child, here)
        elif inspect.isfunction(member):
            yield here, member


def sample(method: Any) -> dict[str, Any]:
    """Arguments that a method can be called with, whatever they mean."""
    found = {}
    for name, parameter in list(inspect.signature(method).parameters.items())[1:]:
        if parameter.default is inspect.Parameter.empty and name not in OPTIONS:
            found[name] = _any_of(str(parameter.annotation), name)
    return found


def _any_of(annotation: str, name: str) -> Any:
    if annotation.startswith("Literal["):
        return annotation.removeprefix("Literal[").split(",")[0].strip("]'\" ")
    if annotation.startswith("int"):
        return 1
    if annotation.startswith(("SequenceNotStr", "Iterable", "List")):
        return []
    return "x" if annotation.startswith("str") else {}


async def pages(call: Any, *args: Any, **query: Any) -> AsyncIterator[Any]:
    page: AsyncCursorPage[Any] | AsyncConversationCursorPage[Any] = await call(*args, **query)
    yield page
    while page.has_next_page():
        page = await page.get_next_page()
        yield page


def complete(answer: Any) -> Any:
    """Asserts that every field that we claim is in the answer, in whatever it holds too; gives it back."""
    if isinstance(answer, list):
        for one in answer:
            complete(one)
    if not isinstance(answer, BaseModel):
        return answer
    kind, sent = type(answer).__name__, answer.model_fields_set
    for name, field in type(answer).model_fields.items():
        if _is_claimed(kind, name, field.alias, answer):
            assert name in sent, f"{kind}.{name} is not in the answer"
        if name in sent:
            complete(getattr(answer, name))
    return answer


def _is_claimed(kind: str, name: str, alias: str | None, answer: BaseModel) -> bool:
    if kind in ONE_OF_MANY:
        return name in ONE_OF_MANY[kind] or alias == getattr(answer, "type", None)
    return name not in NOT_CLAIMED.get(kind, set())
