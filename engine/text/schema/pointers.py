"""References within a schema, and whether the branches of a `oneOf` exclude each other.

Only pointers into the schema itself are followed: `#`, `#/$defs/name`, `#/properties/a`. Knows no grammar.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any
from urllib.parse import unquote

from engine.text.schema import keywords
from engine.text.schema.keywords import SchemaError

MAX_BRANCHES = 100
"""Of a `oneOf`: each is compared with each."""
_MOST_HOPS = 32
_POINTER = re.compile(r"#(/[^#]*)?")


class Pointers:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root

    def resolve(self, pointer: str, path: tuple[str, ...]) -> tuple[Any, str]:
        """The schema that it leads to, through references to references, and that schema's own pointer."""
        for _ in range(_MOST_HOPS):
            target = self._follow(pointer, path)
            if not (isinstance(target, dict) and "$ref" in target):
                return target, pointer
            keywords.check(target, path)
            pointer = target["$ref"]
        raise SchemaError((*path, "$ref"), "this reference only leads to references")

    def check_disjoint(self, schemas: list[Any], path: tuple[str, ...]) -> None:
        """Raises `SchemaError` unless no value can belong to two of them."""
        if len(schemas) > MAX_BRANCHES:
            raise SchemaError(path, f"a 'oneOf' may have {MAX_BRANCHES} branches at most")
        resolved = [self._plain(schema, path) for schema in schemas]
        for one, other in combinations(resolved, 2):
            if not _disjoint(one, other, self._plain, path):
                message = (
                    "the branches of a 'oneOf' must exclude each other visibly (by type, or by a required "
                )
                raise SchemaError(path, message + "property with different constants); use 'anyOf'")

    def _follow(self, pointer: str, path: tuple[str, ...]) -> Any:
        if not _POINTER.fullmatch(pointer):
            raise SchemaError((*path, "$ref"), "only references within the schema ('#/…') are supported")
        found: Any = self._root
        for part in pointer.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isascii() and key.isdigit() and int(key) < len(found):
                found = found[int(key)]
            else:
                raise SchemaError((*path, "$ref"), "this reference leads nowhere")
        return found

    def _plain(self, schema: Any, path: tuple[str, ...]) -> Any:
        if isinstance(schema, dict) and "$ref" in schema:
            keywords.check(schema, path)
            return self.resolve(schema["$ref"], path)[0]
        return schema


def _disjoint(one: Any, other: Any, plain: Any, path: tuple[str, ...]) -> bool:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return False
    keywords.check(one, path)
    keywords.check(other, path)
    values = _values(one), _values(other)
    if values[0] is not None and values[1] is not None:
        return values[0].isdisjoint(values[1])
    types = _kinds(one, path), _kinds(other, path)
    if types[0] is not None and types[1] is not None and types[0].isdisjoint(types[1]):
        return True
    shared = set(one.get("required", [])) & set(other.get("required", []))
    for name in shared:
        sides = (plain(each.get("properties", {}).get(name), path) for each in (one, other))
        found = [_values(side) if isinstance(side, dict) else None for side in sides]
        if found[0] is not None and found[1] is not None and found[0].isdisjoint(found[1]):
            return _kinds(one, path) == _kinds(other, path) == {"object"}
    return False


def _values(schema: dict[str, Any]) -> set[str] | None:
    """The only ones that it allows, as JSON."""
    if "const" in schema:
        return {keywords.dump(schema["const"])}
    return {keywords.dump(value) for value in schema["enum"]} if "enum" in schema else None


def _kinds(schema: dict[str, Any], path: tuple[str, ...]) -> set[str] | None:
    """Those that it names: a schema that names none allows values of all."""
    types = keywords.types_of(schema, path)
    return None if types is None else {"number" if name == "integer" else name for name in types}
