"""`response_format` and `structured_outputs` of a body → the grammar that the answer must follow.

Readers for the validation tables of `protocol`. What can be told from the text alone is refused here, naming the
field; the rest when the core process compiles it. Knows no tokens and no compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from engine.messages import GrammarSpec
from engine.server.errors import invalid, missing, unsupported
from engine.server.fields import IDENTIFIER, Reader, Schema, identifier, kind_of, obj, shown, text
from engine.text.schema import RegexError, SchemaError, regex_grammar, schema_grammar

MAX_SCHEMA_BYTES = 128 << 10
MAX_REGEX_CHARS = 4096
MAX_GRAMMAR_CHARS = 64 << 10
MAX_CHOICES = 1024
MAX_CHOICE_CHARS = 64 << 10
"""Of all choices together."""

ANY_OBJECT: dict[str, Any] = {"type": "object"}
_FORMATS = ("text", "json_object", "json_schema")


def _response_format(name: str, value: Any) -> GrammarSpec | None:
    """OpenAI's field. None: plain text."""
    body = obj(name, value)
    kind = body.get("type")
    if kind is None:
        raise missing(f"{name}.type")
    if kind not in _FORMATS:
        message = (
            f"Invalid value for '{name}.type': expected one of {', '.join(_FORMATS)}, got {shown(kind)}."
        )
        raise invalid(message, f"{name}.type")
    if kind == "json_object":
        return GrammarSpec("ebnf", schema_grammar(ANY_OBJECT), name)
    return _named_schema(f"{name}.json_schema", body.get("json_schema")) if kind == "json_schema" else None


def _structured_outputs(name: str, value: Any) -> GrammarSpec:
    """vLLM's field: exactly one of its ways to say what the answer must be."""
    given = {key: entry for key, entry in obj(name, value).items() if entry is not None}
    unknown = [key for key in given if key not in _WAYS]
    if unknown:
        raise unsupported(f"{name}.{unknown[0][:64]}", f"only one of {', '.join(_WAYS)} is served.")
    if len(given) != 1:
        raise invalid(f"'{name}' needs exactly one of {', '.join(_WAYS)}, got {len(given)}.", name)
    ((way, entry),) = given.items()
    return _WAYS[way](f"{name}.{way}", entry)


def only_one(format_: GrammarSpec | None, outputs: GrammarSpec | None) -> GrammarSpec | None:
    """What the two fields say together."""
    if format_ is not None and outputs is not None:
        message = "'structured_outputs' and a 'response_format' other than text exclude each other."
        raise invalid(message, "structured_outputs")
    return format_ or outputs


def schema_of(name: str, schema: Any) -> GrammarSpec:
    """A JSON schema, as an object or as its text. Raises `ApiError` naming the place in it that is not served."""
    if isinstance(schema, str):
        try:
            schema = orjson.loads(schema)
        except orjson.JSONDecodeError as error:
            raise invalid(f"Invalid value for '{name}': not JSON: {error}", name) from error
    if not isinstance(schema, dict):
        raise invalid(f"Invalid type for '{name}': expected an object, got {kind_of(schema)}.", name)
    try:
        if len(orjson.dumps(schema)) > MAX_SCHEMA_BYTES:
            raise invalid(f"Invalid value for '{name}': at most {MAX_SCHEMA_BYTES} bytes of schema.", name)
        return GrammarSpec("ebnf", schema_grammar(schema), name)
    except SchemaError as error:
        place = ".".join([name, *(part[:64] for part in error.path)])
        raise invalid(f"Invalid schema in '{place}': {error}.", place) from error
    except orjson.JSONEncodeError as error:
        raise invalid(f"Invalid value for '{name}': the schema is nested too deeply.", name) from error


def _named_schema(name: str, value: Any) -> GrammarSpec:
    if value is None:
        raise missing(name)
    body = obj(name, value)
    identifier(f"{name}.name", body.get("name"))
    if not isinstance(body.get("strict"), bool | None):
        raise invalid(f"Invalid type for '{name}.strict': expected a boolean.", f"{name}.strict")
    if body.get("schema") is None:
        raise missing(f"{name}.schema")
    return schema_of(f"{name}.schema", body["schema"])


def _regex(name: str, value: Any) -> GrammarSpec:
    pattern = _not_empty(name, text(MAX_REGEX_CHARS)(name, value))
    try:
        return GrammarSpec("ebnf", regex_grammar(pattern), name)
    except RegexError as error:
        raise invalid(f"Invalid value for '{name}': {error}.", name) from error


def _ebnf(name: str, value: Any) -> GrammarSpec:
    return GrammarSpec("ebnf", _not_empty(name, text(MAX_GRAMMAR_CHARS)(name, value)), name)


def _choice(name: str, value: Any) -> GrammarSpec:
    if not isinstance(value, list):
        raise invalid(f"Invalid type for '{name}': expected an array, got {kind_of(value)}.", name)
    if not 1 <= len(value) <= MAX_CHOICES:
        raise invalid(f"Invalid value for '{name}': expected 1 to {MAX_CHOICES} choices.", name)
    for index, choice in enumerate(value):
        _not_empty(f"{name}[{index}]", text(MAX_CHOICE_CHARS)(f"{name}[{index}]", choice))
    if sum(map(len, value)) > MAX_CHOICE_CHARS:
        raise invalid(f"Invalid value for '{name}': at most {MAX_CHOICE_CHARS} characters in all.", name)
    return GrammarSpec("choice", orjson.dumps(list(dict.fromkeys(value))).decode(), name)


def _json_object(name: str, value: Any) -> GrammarSpec:
    if value is not True:
        raise invalid(f"Invalid value for '{name}': only true says something.", name)
    return GrammarSpec("ebnf", schema_grammar(ANY_OBJECT), name)


def _not_empty(name: str, value: str) -> str:
    if not value.strip():
        raise invalid(f"Invalid value for '{name}': it must not be empty.", name)
    return value


_WAYS: Mapping[str, Callable[[str, Any], GrammarSpec]] = {
    "json": schema_of,
    "regex": _regex,
    "choice": _choice,
    "grammar": _ebnf,
    "json_object": _json_object,
}


def _variant(**properties: Schema) -> Schema:
    return {"type": "object", "required": list(properties), "properties": properties}


_JSON: Schema = {"anyOf": [{"type": "object"}, {"type": "string"}]}
_WAY_SCHEMAS: Mapping[str, Schema] = {
    "json": _JSON,
    "regex": {"type": "string", "minLength": 1, "maxLength": MAX_REGEX_CHARS},
    "choice": {
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_CHOICES,
        "items": {"type": "string", "minLength": 1, "maxLength": MAX_CHOICE_CHARS},
    },
    "grammar": {"type": "string", "minLength": 1, "maxLength": MAX_GRAMMAR_CHARS},
    "json_object": {"type": "boolean", "enum": [True]},
}
_NAMED: Schema = {
    "type": "object",
    "required": ["name", "schema"],
    "properties": {"name": IDENTIFIER, "strict": {"type": ["boolean", "null"]}, "schema": _JSON},
}
_FORMAT: Schema = {
    "anyOf": [
        _variant(type={"type": "string", "enum": ["text", "json_object"]}),
        _variant(type={"type": "string", "enum": ["json_schema"]}, json_schema=_NAMED),
    ]
}
_OUTPUTS: Schema = {
    "anyOf": [
        {**_variant(**{way: schema}), "additionalProperties": {"type": "null"}}
        for way, schema in _WAY_SCHEMAS.items()
    ]
}
response_format = Reader(_response_format, _FORMAT)
"""OpenAI's field → the grammar; None: plain text."""
structured_outputs = Reader(_structured_outputs, _OUTPUTS)
"""vLLM's field: exactly one of its ways to say what the answer must be."""
