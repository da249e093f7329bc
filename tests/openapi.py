"""Real answers against the committed description of the API, more strictly than a client would read it.

A shape that is not said to be open holds the fields that it names and no others.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

__all__ = ["DOCUMENT", "Description"]

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "openapi.json"
_REFUSED = {"$ref": "#/components/schemas/Refused"}
_BYTES = {"type": "string"}
_PARAMETER = re.compile(r"{\w+}")


class Description:
    def __init__(self, document: dict[str, Any] | None = None) -> None:
        self._document = document or json.loads(DOCUMENT.read_text(encoding="utf-8"))
        components = {"components": _closed(self._document["components"])}
        self._validators: dict[str, Draft202012Validator] = {}
        self._components = components
        self.seen: set[str] = set()
        """The operations of which an answer was found to be right; of a list, one with something in it."""
        self._routes = [
            (method.upper(), path, re.compile(_PARAMETER.sub("[^/]+", path).replace(".", r"\.")))
            for path, operations in self._document["paths"].items()
            for method in operations
        ]
        # A fixed path before one with a parameter in the same place.
        self._routes.sort(key=lambda route: len(_PARAMETER.findall(route[1])))

    @property
    def operations(self) -> set[str]:
        return {f"{method} {path}" for method, path, _ in self._routes}

    def route(self, method: str, path: str) -> str | None:
        """The operation that a request is one of."""
        for known, template, pattern in self._routes:
            if known == method and pattern.fullmatch(path):
                return f"{known} {template}"
        return None

    def check(self, method: str, path: str, status: int, content_type: str, body: bytes) -> None:
        """Raises AssertionError for an answer that the description does not allow."""
        route, kind = self.route(method, path), content_type.partition(";")[0]
        if route is None:
            assert status in (404, 405), f"{method} {path} is not in the description"
            self._validate("refused", _REFUSED, json.loads(body))
            return
        schema = self._schema(route, status, kind)
        name = f"{route} {status // 100} {kind}"
        is_telling = True
        if kind == "application/json" and schema != _BYTES:
            value = json.loads(body)
            self._validate(name, schema, value)
            is_telling = not _is_empty(value)
        elif kind == "text/event-stream":
            for event in re.findall(rb"^data: (.*)$", body, re.MULTILINE):
                if event != b"[DONE]":
                    self._validate(name, schema, json.loads(event))
        if status < 400 and is_telling:
            self.seen.add(route)

    def _schema(self, route: str, status: int, kind: str) -> Any:
        method, path = route.split()
        responses = self._document["paths"][path][method.lower()]["responses"]
        found = responses.get(str(status)) or responses.get(f"{status // 100}XX")
        assert found is not None, f"{route}: no answer {status} is described"
        content = found["content"].get(kind) or found["content"].get("*/*")
        assert content is not None, f"{route}: an answer {status} is no {kind}"
        return content["schema"]

    def _validate(self, name: str, schema: Any, value: Any) -> None:
        validator = self._validators.get(name)
        if validator is None:
            validator = self._validators[name] = Draft202012Validator({**schema, **self._components})
        errors = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]
        assert not errors, f"{name}: " + "\n".join(errors[:5])


def _is_empty(value: Any) -> bool:
    """A list without a row says nothing of its rows."""
    rows = value.get("data") if isinstance(value, dict) else None
    return isinstance(rows, list) and not any(
        isinstance(row, str) or row.get("results", True) for row in rows
    )


def _closed(value: Any) -> Any:
    if isinstance(value, list):
        return [_closed(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: _closed(one) for key, one in value.items()}
    if "properties" in found and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found
