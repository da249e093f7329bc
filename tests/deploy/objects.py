"""Kubernetes objects against the schemas of their API: the built-in kinds from `kubernetes-validate`, custom ones from `schemas/`.

Used on the manifests of `deploy/` and by the API server that tests of the launcher talk to.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema
import kubernetes_validate

from tests.tidy.tree import ROOT

SCHEMAS = ROOT / "tests/deploy/schemas"
VERSION = "1.34.0"
Object = dict[str, Any]


@cache
def custom() -> dict[tuple[str, str], Object]:
    """(apiVersion, kind) → schema."""
    found = {}
    for path in SCHEMAS.glob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        for version, schema in document["versions"].items():
            found[f"{document['group']}/{version}", document["kind"]] = _closed(schema)
    return found


def _closed(schema: Any) -> Any:
    """As an API server with strict field validation reads it: a field that is not there is a mistake."""
    if not isinstance(schema, dict):
        return [_closed(one) for one in schema] if isinstance(schema, list) else schema
    closed = {key: _closed(value) for key, value in schema.items()}
    has_fields = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    if has_fields and "x-kubernetes-preserve-unknown-fields" not in schema:
        closed.setdefault("additionalProperties", False)
    if closed.pop("x-kubernetes-int-or-string", False):
        return {"type": ["integer", "string"]}
    return closed


def faults(one: Object) -> list[str]:
    name = f"{one['kind']} {one['metadata']['name']}"
    schema = custom().get((one["apiVersion"], one["kind"]))
    if schema is None:
        try:
            kubernetes_validate.validate(one, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            return [f"{name}: {error.message}"]
        return []
    open_meta = {**schema, "properties": {**schema["properties"], "metadata": {"type": "object"}}}
    return [f"{name}: {error.message}" for error in jsonschema.Draft7Validator(open_meta).iter_errors(one)]
