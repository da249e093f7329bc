"""The table of the admin API's answers: every route is in it, with a named shape for what it answers."""

from __future__ import annotations

import json
import re

from gateway.http.description.answers import ADMIN_ANSWERS
from gateway.http.description.data_plane import OPERATIONS
from tests.openapi import DOCUMENT

PREFIX = "/v1/organization"
NO_JSON = {
    "GET /v1/organization/exports/{export_id}/files/{name}",
    "GET /v1/files/{file_id}/content",
    "GET /metrics",
}


def test_every_answer_has_a_named_shape() -> None:
    """A route that is added gets its row in gateway/http/description/answers.py."""
    document = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    operations = {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    unnamed = []
    for route, operation in operations.items():
        content = operation["responses"]["200"]["content"]
        schema = content.get("application/json", {}).get("schema", {})
        if not re.fullmatch(r"#/components/schemas/\w+", schema.get("$ref", "")):
            unnamed.append(route)
    assert set(unnamed) == NO_JSON | {"GET /v1/organization/openapi.json"}
    beside = {f"{operation.method} {operation.path}" for operation in OPERATIONS}
    assert {route.replace(" ", f" {PREFIX}") for route in ADMIN_ANSWERS} == {
        route for route in operations if PREFIX in route and route not in beside
    }
