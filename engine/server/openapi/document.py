"""The OpenAPI 3.1 document, from the routes and the components. Knows no values: all is in the tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from engine import __version__
from engine.server.app import Access, Route
from engine.server.exchange import JSON
from engine.server.fields import Schema
from engine.server.openapi.answers import answers, ref
from engine.server.openapi.bodies import request_bodies
from engine.server.openapi.operations import (
    ANSWER_HEADERS,
    HEADERS,
    OPERATIONS,
    REPLY_HEADERS,
    STREAMED,
    Operation,
)

_ABOUT = (
    "One model on one GPU, or the CPU, in OpenAI's dialect. Rules between fields, and what the fields mean: "
    "docs/engine-api.md. A request that a schema forbids is refused with 400."
)
_REASONS = {
    200: "As asked.",
    202: "Begun.",
    400: "The request is not as it should be; `param` names the place.",
    401: "No key, or none that is known.",
    404: "There is no such model.",
    409: "Other weights, or another tokenizer.",
    413: "The body is too large.",
    415: "The body is encoded.",
    431: "The headers are too large.",
    500: "The engine failed.",
    503: "Overloaded, draining, or not ready: `code` says which, and `retry-after` when to come again.",
}
_EVENTS = "text/event-stream"


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """Raises KeyError for a route that nobody described."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = OPERATIONS[route.method, route.path]
        path = route.path.replace("*", "{model}")
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, path, operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tollway engine", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": {**request_bodies(), **answers(), "Document": {"type": "object"}},
            "parameters": {name: {"name": name, "in": "header", **row} for name, row in HEADERS.items()},
            "responses": {
                str(status): _response(status, {JSON: {"schema": ref("Error")}})
                for status in _REASONS
                if status >= 400
            },
            "headers": {
                name: {"description": text, "schema": {"type": "string"}}
                for name, text in (REPLY_HEADERS | ANSWER_HEADERS).items()
            },
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "Where --api-key is set."},
                "internalKey": {"type": "http", "scheme": "bearer", "description": "--internal-key."},
            },
        },
    }


def _operation(route: Route, path: str, operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {"summary": operation.summary, "security": _security(route.access)}
    parameters: list[Schema] = [{"in": "query", **row} for row in operation.query]
    if path != route.path:
        parameters.append({"name": "model", "in": "path", "required": True, "schema": {"type": "string"}})
    names = HEADERS if operation.for_gateway else ["x-request-id"]
    found["parameters"] = [*parameters, *({"$ref": f"#/components/parameters/{name}"} for name in names)]
    if operation.body is not None:
        found["requestBody"] = {"required": True, "content": {JSON: {"schema": ref(operation.body)}}}
    errors = {400, 431, 500, 503, *operation.refuses}
    if route.access is not Access.PUBLIC:
        errors |= {401}
    if operation.body is not None:
        errors |= {413, 415}
    found["responses"] = {
        str(operation.status): _response(
            operation.status, _content(operation), ANSWER_HEADERS if operation.for_gateway else ()
        ),
        **{str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(errors)},
    }
    return found


def _security(access: Access) -> list[dict[str, list[str]]]:
    internal: dict[str, list[str]] = {"internalKey": []}
    match access:
        case Access.PUBLIC:
            return []
        case Access.KEY:
            return [{"key": []}, internal]
        case Access.INTERNAL:
            return [internal]


def _content(operation: Operation) -> dict[str, Any]:
    if not operation.answers:
        return {"text/plain": {"schema": {"type": "string"}}}
    content: dict[str, Any] = {}
    if not operation.only_streams:
        content[JSON] = {"schema": ref(operation.answers)}
    if operation.answers in STREAMED:
        events = STREAMED.values() if operation.only_streams else [STREAMED[operation.answers]]
        content[_EVENTS] = {"x-events": {"anyOf": [*map(ref, events), ref("Error")]}}
    return content


def _response(status: int, content: dict[str, Any], more_headers: Iterable[str] = ()) -> dict[str, Any]:
    names = [*REPLY_HEADERS, *more_headers]
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
    return {"description": _REASONS[status], "headers": headers, "content": content}
