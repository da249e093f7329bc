"""Schemas of request bodies, from the validation tables that read them.

A body that its schema forbids is refused; one that it allows may still be refused by a rule between fields, which a
schema cannot say. Knows no routes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from engine.server import embeddings, field_tables, internal_routes, text_routes
from engine.server.continuation import Start
from engine.server.fields import Field, Schema, Unsupported
from engine.server.protocol import STREAM_OPTIONS
from engine.server.resume import ResumeBody

_UNKNOWN = (
    "Fields that are not listed have no effect; the header x-tollway-ignored names them. null is absent."
)


def request_bodies() -> dict[str, Schema]:
    """Name of the component → schema."""
    common, streams = field_tables.COMMON_FIELDS, {"stream_options": STREAM_OPTIONS}
    return {
        "ChatCompletionRequest": _body(
            {**common, **field_tables.CHAT_FIELDS}, field_tables.UNSUPPORTED_IN_CHAT, streams
        ),
        "CompletionRequest": _body(
            {**common, **field_tables.COMPLETION_FIELDS}, field_tables.UNSUPPORTED_IN_COMPLETIONS, streams
        ),
        "EmbeddingRequest": _body(embeddings.EMBEDDING_FIELDS, embeddings.UNSUPPORTED_IN_EMBEDDINGS),
        "TokenizeRequest": _body(text_routes.TOKENIZE_FIELDS, text_routes.REFUSED),
        "DetokenizeRequest": _body(text_routes.DETOKENIZE_FIELDS, text_routes.REFUSED),
        "AbortRequest": _body(internal_routes.ABORT_FIELDS),
        **_of_structs(ResumeBody, Start),
    }


def of_struct(kind: type[msgspec.Struct]) -> Schema:
    return _of_structs(kind)[kind.__name__]


def _body(
    table: Mapping[str, Field], refused: Mapping[str, Unsupported] | None = None, more: Schema | None = None
) -> Schema:
    return {
        "type": "object",
        "description": _UNKNOWN,
        "required": [name for name, field in table.items() if field.required],
        "properties": {
            **{name: _of_field(field) for name, field in table.items()},
            **(more or {}),
            **{name: _of_refused(row) for name, row in (refused or {}).items()},
        },
    }


def _of_field(field: Field) -> Schema:
    if field.required:
        return field.read.schema
    schema = _or_null(field.read.schema)
    if field.default is None:
        return schema
    default = list(field.default) if isinstance(field.default, tuple) else field.default
    return {**schema, "default": default}


def _or_null(schema: Schema) -> Schema:
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if "enum" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]}


def _of_refused(row: Unsupported) -> Schema:
    """Values that say nothing, and no others."""
    return {"enum": list(_distinct((None, *row.neutral))), "description": f"Not served: {row.why}"}


def _distinct(values: Iterable[Any]) -> list[Any]:
    """1 and 1.0 are the same number in JSON, 1 and true are not."""
    found: dict[str, Any] = {}
    for value in values:
        key = repr(float(value)) if type(value) in (int, float) else repr(value)
        found.setdefault(key, value)
    return list(found.values())


def _of_structs(*kinds: type[msgspec.Struct]) -> dict[str, Schema]:
    _, found = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    return dict(found)
