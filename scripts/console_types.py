"""Writes the console's types of the admin API from docs/openapi.json: `python -m scripts.console_types`.

Place: between the description that `tollway openapi` prints and `admin_ui/src/api/schema.ts`, which the console is
type-checked against. It knows the part of JSON Schema that the description uses, and fails on any other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["DESCRIPTION", "TYPES", "render"]

ROOT = Path(__file__).parents[1]
DESCRIPTION = ROOT / "docs/openapi.json"
TYPES = ROOT / "admin_ui/src/api/schema.ts"
HEAD = "// Written from docs/openapi.json by `python -m scripts.console_types`. Do not edit.\n"
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_WORD = re.compile(r"[A-Za-z_]\w*")
Schema = Mapping[str, Any]


def render(document: Schema) -> str:
    """The whole file."""
    named = document.get("components", {}).get("schemas", {})
    parts = [HEAD, *(f"export type {_identifier(name)} = {_type(named[name])};\n" for name in sorted(named))]
    operations = [
        _operation(f"{method.upper()} {path}", operation)
        for path, methods in sorted(document["paths"].items())
        for method, operation in sorted(methods.items())
    ]
    parts.append("/** Every call: what its path and query take, its body, and its answer. */\n")
    parts.append("export interface Operations {\n" + "".join(operations) + "}\n")
    return "\n".join(parts)


def _operation(name: str, operation: Schema) -> str:
    taken = operation.get("parameters", [])
    path = _object([(one["name"], one["schema"], True) for one in taken if one["in"] == "path"])
    query = _object(
        [(one["name"], one["schema"], one.get("required", False)) for one in taken if one["in"] == "query"]
    )
    body = _content(operation.get("requestBody", {})) or "undefined"
    answers = [
        _content(operation["responses"][code]) for code in ("200", "201") if code in operation["responses"]
    ]
    answer = next((one for one in answers if one is not None), None) or "unknown"
    return f'  "{name}": {{ path: {path}; query: {query}; body: {body}; answer: {answer} }};\n'


def _content(part: Schema) -> str | None:
    schema = part.get("content", {}).get("application/json", {}).get("schema")
    return _type(schema) if schema is not None else None


def _type(schema: Schema) -> str:
    if not schema:
        return "unknown"
    if "$ref" in schema:
        return _identifier(schema["$ref"].rpartition("/")[2])
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return _union([_type(one) for one in schema[word]])
    if "allOf" in schema:
        return " & ".join(_type(one) for one in schema["allOf"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return _union([json.dumps(one) for one in schema["enum"]])
    kind = schema.get("type")
    if isinstance(kind, list):
        return _union([_type({**schema, "type": one}) for one in kind])
    if kind == "array":
        return _array(schema)
    if kind == "object" or "properties" in schema:
        return _record(schema)
    if kind is None:
        return "unknown"
    return _PLAIN[kind]


def _array(schema: Schema) -> str:
    if "prefixItems" in schema:
        return "[" + ", ".join(_type(one) for one in schema["prefixItems"]) + "]"
    return f"Array<{_type(schema.get('items', {}))}>"


def _record(schema: Schema) -> str:
    required = schema.get("required", ())
    fields = [(name, one, name in required) for name, one in schema.get("properties", {}).items()]
    extra = schema.get("additionalProperties")
    if not fields:
        return f"Record<string, {_type(extra) if isinstance(extra, dict) else 'unknown'}>"
    return _object(fields)


def _object(fields: Sequence[tuple[str, Schema, bool]]) -> str:
    if not fields:
        return "{}"
    shown = (f"{_property(name)}{'' if required else '?'}: {_type(one)}" for name, one, required in fields)
    return "{ " + "; ".join(shown) + " }"


def _union(types: Sequence[str]) -> str:
    return " | ".join(dict.fromkeys(types))


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _property(name: str) -> str:
    return name if _WORD.fullmatch(name) else json.dumps(name)


if __name__ == "__main__":
    TYPES.write_text(render(json.loads(DESCRIPTION.read_text())))
