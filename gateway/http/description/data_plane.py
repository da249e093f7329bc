"""The routes of the data plane, which are no framework's: the description is written here, not read off them.

A test asks the router for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gateway.http.description.answers import Shape
from gateway.http.description.shapes import data_plane as shapes
from gateway.http.description.shapes import webhooks
from gateway.http.description.shapes.common import Deleted, Page

__all__ = ["OPERATIONS", "Operation"]

JSON, EVENTS, TEXT, BYTES = (
    "application/json",
    "text/event-stream",
    "text/plain",
    "application/octet-stream",
)
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    summary: str
    answers: Mapping[str, Shape]
    """By content type; None is content that is no JSON."""
    body: Json | None = None
    """The schema of a JSON body. Fields that are not named pass through to the engine."""
    form: Json | None = None
    query: Sequence[str] = ()
    is_open: bool = False
    """Needs no key."""
    refusals: Mapping[str, Shape] | None = None
    """Answers that are not 2xx and no `Refused`, by status."""
    word: str = ""
    """In its id, where the admin API has the same path below its own prefix."""

    @property
    def id(self) -> str:
        words = self.path.removeprefix("/v1").strip("/").replace("{", "").replace("}", "")
        return "_".join((self.method.lower(), *filter(None, (self.word, *words.split("/")))))


def _object(required: Mapping[str, Json], optional: Mapping[str, Json], *, is_open: bool = False) -> Json:
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": [*required],
        "additionalProperties": is_open,
    }


_TEXT, _NUMBER, _COUNT, _YES = (
    {"type": "string"},
    {"type": "number"},
    {"type": "integer"},
    {"type": "boolean"},
)
_ANY: Json = {}
_OBJECT = {"type": "object"}
_STREAM_OPTIONS = _object({}, {"include_usage": _YES}, is_open=True)
_SAMPLING = {
    "stream": _YES,
    "stream_options": _STREAM_OPTIONS,
    "temperature": _NUMBER,
    "top_p": _NUMBER,
    "n": _COUNT,
    "stop": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
    "seed": _COUNT,
    "max_tokens": _COUNT,
    "user": _TEXT,
}
_CHAT = _object(
    {"model": _TEXT, "messages": {"type": "array", "items": _OBJECT}},
    {
        **_SAMPLING,
        "max_completion_tokens": _COUNT,
        "tools": {"type": "array", "items": _OBJECT},
        "tool_choice": _ANY,
        "response_format": _OBJECT,
    },
    is_open=True,
)
_COMPLETION = _object({"model": _TEXT, "prompt": _ANY}, _SAMPLING, is_open=True)
_EMBEDDING = _object({"model": _TEXT, "input": _ANY}, {"encoding_format": _TEXT}, is_open=True)
_RESPONSE = _object(
    {"model": _TEXT, "input": _ANY},
    {
        "instructions": _TEXT,
        "stream": _YES,
        "max_output_tokens": _COUNT,
        "tools": {"type": "array", "items": _OBJECT},
        "text": _OBJECT,
    },
    is_open=True,
)
_EXPIRES = _object({"anchor": {"const": "created_at"}, "seconds": _COUNT}, {})
_FILE = _object(
    {"file": {"type": "string", "format": "binary"}, "purpose": {"const": "batch"}},
    {"expires_after[anchor]": _TEXT, "expires_after[seconds]": _COUNT},
)
_BATCH = _object(
    {"input_file_id": _TEXT, "endpoint": _TEXT, "completion_window": _TEXT},
    {
        "metadata": {"anyOf": [{"type": "object", "additionalProperties": _TEXT}, {"type": "null"}]},
        "output_expires_after": _EXPIRES,
    },
)
_NAMES: Json = {"type": "array", "items": _TEXT}
_HOOK_FIELDS: dict[str, Json] = {"name": _TEXT, "url": _TEXT, "event_types": _NAMES}
_HOOKS, _HOOK = "/v1/webhook_endpoints", "/v1/webhook_endpoints/{endpoint_id}"

_WEBHOOKS = (
    Operation(
        "POST", _HOOKS, "Make a webhook endpoint", {JSON: webhooks.NewEndpoint}, _object(_HOOK_FIELDS, {})
    ),
    Operation("GET", _HOOKS, "Webhook endpoints", {JSON: Page[webhooks.Endpoint]}, query=("after", "limit")),
    Operation("GET", _HOOK, "One webhook endpoint", {JSON: webhooks.Endpoint}),
    Operation(
        "POST", _HOOK, "Change a webhook endpoint", {JSON: webhooks.Endpoint}, _object({}, _HOOK_FIELDS)
    ),
    Operation("DELETE", _HOOK, "Delete a webhook endpoint", {JSON: webhooks.EndpointDeleted}),
    Operation(
        "POST",
        f"{_HOOK}/rotate_secret",
        "Replace its secret",
        {JSON: webhooks.NewEndpoint},
        _object({}, {"keep_old_secret_active_for_24_hours": _YES}),
    ),
    Operation(
        "POST",
        f"{_HOOK}/test",
        "Send it a sample",
        {JSON: webhooks.EndpointTested},
        _object({"event_type": _TEXT}, {}),
    ),
    Operation("GET", "/v1/webhook_event_types", "What endpoints may ask for", {JSON: webhooks.EventTypes}),
)

OPERATIONS = (
    Operation(
        "POST",
        "/v1/chat/completions",
        "Chat completions",
        {JSON: shapes.ChatCompletion, EVENTS: shapes.ChatCompletionChunk},
        _CHAT,
    ),
    Operation(
        "POST",
        "/v1/organization/projects/{project_id}/chat/completions",
        "Chat as a project's, from the console",
        {JSON: shapes.ChatCompletion, EVENTS: shapes.ChatCompletionChunk},
        _CHAT,
    ),
    Operation(
        "POST",
        "/v1/completions",
        "Completions",
        {JSON: shapes.Completion, EVENTS: shapes.Completion},
        _COMPLETION,
    ),
    Operation("POST", "/v1/embeddings", "Embeddings", {JSON: shapes.EmbeddingList}, _EMBEDDING),
    Operation(
        "POST",
        "/v1/responses",
        "Responses (stateless)",
        {JSON: shapes.Response, EVENTS: shapes.ResponseEvent},
        _RESPONSE,
    ),
    Operation("GET", "/v1/models", "The served names that the key may use", {JSON: shapes.ModelList}),
    Operation("GET", "/v1/models/{model}", "One served name", {JSON: shapes.Model}),
    Operation("POST", "/v1/files", "Upload a file", {JSON: shapes.DataFile}, form=_FILE),
    Operation(
        "GET",
        "/v1/files",
        "Files",
        {JSON: Page[shapes.DataFile]},
        query=("after", "limit", "order", "purpose"),
    ),
    Operation("GET", "/v1/files/{file_id}", "One file", {JSON: shapes.DataFile}),
    Operation("DELETE", "/v1/files/{file_id}", "Delete a file", {JSON: Deleted}),
    Operation("GET", "/v1/files/{file_id}/content", "A file's content", {BYTES: None}),
    Operation("POST", "/v1/batches", "Start a batch", {JSON: shapes.Batch}, _BATCH),
    Operation("GET", "/v1/batches", "Batches", {JSON: Page[shapes.Batch]}, query=("after", "limit")),
    Operation("GET", "/v1/batches/{batch_id}", "One batch", {JSON: shapes.Batch}),
    Operation("POST", "/v1/batches/{batch_id}/cancel", "Cancel a batch", {JSON: shapes.Batch}),
    *(replace(one, word="own") for one in _WEBHOOKS),
    Operation("GET", "/healthz", "Whether the process is alive", {JSON: shapes.Health}, is_open=True),
    Operation(
        "GET",
        "/readyz",
        "Whether the process takes requests",
        {JSON: shapes.Readiness},
        is_open=True,
        refusals={"503": shapes.Readiness},
    ),
    Operation("GET", "/metrics", "Prometheus metrics, for an admin key", {TEXT: None}),
)
