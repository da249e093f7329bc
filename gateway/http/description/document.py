"""The document itself: what the framework says of the admin routes, their answers, and the data plane beside them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from fastapi import FastAPI
from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from gateway.http.description.answers import ADMIN_ANSWERS, Shape
from gateway.http.description.data_plane import JSON, OPERATIONS, Operation
from gateway.http.description.shapes.common import Refused

__all__ = ["describe"]

Json = dict[str, Any]
_REFS = "#/components/schemas/{model}"
ANY = "*/*"
_GENERIC = re.compile(rb"\b(CursorPage|Page)_([A-Za-z]+)_")
_PARAMETER = re.compile(r"{(\w+)}")


def describe(admin: FastAPI, prefix: str) -> Json:
    """Every route, with `prefix` before the paths of the table of admin answers. The same whatever is configured."""
    document = admin.openapi()
    schemas = _Schemas(_shapes())
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            route = f"{method.upper()} {path.removeprefix(prefix)}"
            if route in ADMIN_ANSWERS:
                shape = ADMIN_ANSWERS[route]
                content = {JSON: shape} if shape is not None else {ANY: None}
                operation["responses"]["200"]["content"] = schemas.content(content)
            operation["responses"]["4XX"] = schemas.refused()
    for operation in OPERATIONS:
        described = document["paths"].setdefault(operation.path, {})
        described[operation.method.lower()] = _described(operation, schemas)
    document["components"].setdefault("schemas", {}).update(schemas.definitions)
    return _renamed(document)


class _Schemas:
    """All shapes at once, so that each has one name."""

    def __init__(self, shapes: Iterable[Shape]) -> None:
        known = {repr(shape): shape for shape in shapes}
        adapters: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
            (name, "validation", TypeAdapter(shape)) for name, shape in known.items()
        ]
        found, extra = TypeAdapter.json_schemas(adapters, ref_template=_REFS)
        self._found = {name: schema for (name, _), schema in found.items()}
        self.definitions: Json = extra["$defs"]

    def content(self, answers: Mapping[str, Shape]) -> Json:
        return {
            kind: {"schema": self._found[repr(shape)] if shape is not None else {"type": "string"}}
            for kind, shape in answers.items()
        }

    def refused(self) -> Json:
        return {"description": "Refused", "content": self.content({JSON: Refused})}


def _shapes() -> Iterable[Shape]:
    yield Refused
    yield from (shape for shape in ADMIN_ANSWERS.values() if shape is not None)
    for operation in OPERATIONS:
        for answers in (operation.answers, operation.refusals or {}):
            yield from (shape for shape in answers.values() if shape is not None)


def _described(operation: Operation, schemas: _Schemas) -> Json:
    responses = {"200": {"description": "Successful Response", "content": schemas.content(operation.answers)}}
    for status, shape in (operation.refusals or {}).items():
        responses[status] = {"description": "Refused", "content": schemas.content({JSON: shape})}
    found: Json = {"operationId": operation.id, "summary": operation.summary, "responses": responses}
    if not operation.is_open:
        responses["4XX"] = schemas.refused()
        found["security"] = [{"HTTPBearer": []}]
    bodies = {JSON: operation.body, "multipart/form-data": operation.form}
    content = {kind: {"schema": schema} for kind, schema in bodies.items() if schema is not None}
    if content:
        found["requestBody"] = {"required": True, "content": content}
    in_path = [_parameter(name, "path") for name in _PARAMETER.findall(operation.path)]
    parameters = in_path + [_parameter(name, "query") for name in operation.query]
    if parameters:
        found["parameters"] = parameters
    return found


def _parameter(name: str, place: str) -> Json:
    kind = "integer" if name == "limit" else "string"
    return {"name": name, "in": place, "required": place == "path", "schema": {"type": kind}}


def _renamed(document: Json) -> Json:
    """`ProjectPage` for what the generator calls `Page_Project_`."""
    found: Json = orjson.loads(_GENERIC.sub(rb"\2\1", orjson.dumps(document)))
    return found
