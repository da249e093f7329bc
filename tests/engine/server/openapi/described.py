"""Holds bodies and answers against the engine's OpenAPI document, with no key left over."""

from __future__ import annotations

from typing import Any

import orjson
from jsonschema import Draft202012Validator

from engine.server.openapi import document
from engine.server.routes import ROUTES


class Described:
    """`closed`: an object may have no other keys than those described."""

    def __init__(self, *, closed: bool) -> None:
        self.document = document(ROUTES)
        self.seen: set[str] = set()
        """All keys of all answers."""
        components = self.document["components"]["schemas"]
        self._components = {"components": {"schemas": _close(components) if closed else components}}
        self._validators: dict[int, Draft202012Validator] = {}
        """By identity of the schema, a part of the document."""

    def faults(self, component: str, value: Any) -> list[str]:
        """What the component's schema has against a value."""
        return self._faults(self._components["components"]["schemas"][component], value)

    def faults_of_answer(self, method: str, path: str, status: int, kind: str, raw: bytes) -> list[str]:
        """`path`: as the document writes it."""
        operation = self.document["paths"][path][method.lower()]
        response = operation["responses"].get(str(status))
        if response is None:
            return [f"{status} is not described"]
        if "$ref" in response:
            response = self.document["components"]["responses"][str(status)]
        media = response["content"].get(kind.split(";")[0])
        if media is None:
            return [f"{kind} is not described"]
        if kind.startswith("text/event-stream"):
            return self._faults_of_events(media["x-events"], raw)
        value = orjson.loads(raw) if kind == "application/json" else raw.decode()
        self._see(value)
        return self._faults(media["schema"], value)

    def _faults_of_events(self, schema: Any, raw: bytes) -> list[str]:
        *events, last = raw.removesuffix(b"\n\n").split(b"\n\n")
        lines = [line for event in events for line in event.split(b"\n") if not line.startswith(b": ")]
        values = [orjson.loads(line.removeprefix(b"data: ")) for line in lines]
        found = [] if last == b"data: [DONE]" else [f"ends with {last!r}"]
        for value in values:
            self._see(value)
            found += self._faults(schema, value)
        return found

    def _faults(self, schema: Any, value: Any) -> list[str]:
        if id(schema) not in self._validators:
            self._validators[id(schema)] = Draft202012Validator({**schema, **self._components})
        errors = self._validators[id(schema)].iter_errors(value)
        return [f"{error.json_path}: {error.message[:300]}" for error in errors]

    def _see(self, value: Any) -> None:
        if isinstance(value, dict):
            self.seen.update(value)
            value = list(value.values())
        if isinstance(value, list):
            for inner in value:
                self._see(inner)


def _close(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_close(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _close(inner) for name, inner in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed
