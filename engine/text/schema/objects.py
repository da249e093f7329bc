"""Objects: declared properties in order, each once, then others under names of their own.

Part of `grammar`, which writes the values. Two chains of rules go along the properties: one before the first that is
written, one after it, which writes commas.
"""

from __future__ import annotations

from typing import Any, Protocol

from engine.text.schema.ebnf import alternatives, char_class, literal, of_chars, without
from engine.text.schema.keywords import SchemaError, dump
from engine.text.schema.regex import SAFE

MAX_PROPERTIES = 1000
MAX_OPTIONAL = 300
"""In one object: after each of them any of the later ones may follow, so the work grows with their square."""
MAX_NAMED_CHARS = 4000
"""Of the names of an object that may have others as well: each of their characters is a rule."""
MAX_OTHERS = 10_000


class Writer(Protocol):
    def rule(self, body: str, needs: list[set[str]] | None = None) -> str: ...

    def value(self, schema: Any, path: tuple[str, ...]) -> str: ...


class ObjectRules:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def write(self, schema: dict[str, Any], path: tuple[str, ...]) -> str:
        """The rule of the objects that the schema allows."""
        properties, required = schema.get("properties", {}), dict.fromkeys(schema.get("required", []))
        others = self._others(schema)
        if others is False and any(name not in properties for name in required):
            raise SchemaError((*path, "required"), "a required property is not among 'properties'")
        declared = dict(properties) | {
            name: True if others is None else others for name in required if name not in properties
        }
        if len(declared) > MAX_PROPERTIES:
            raise SchemaError((*path, "properties"), f"at most {MAX_PROPERTIES} properties are supported")
        if len(declared) - len(required) > MAX_OPTIONAL:
            message = f"at most {MAX_OPTIONAL} properties that are not required are supported"
            raise SchemaError((*path, "properties"), message)
        is_open = others not in (None, False)
        self._check_counts(schema, path, len(declared), len(required), is_open)
        pairs = [
            (f"{literal(dump(name) + ':')} ws {self._value(name, inner, properties, path)}", name in required)
            for name, inner in declared.items()
        ]
        needed = {pair.rsplit(" ", 1)[1] for pair, is_required in pairs if is_required}
        more = None
        if is_open:
            value = self._writer.value(others, (*path, "additionalProperties"))
            more = f"{self._other_name(declared, path)} ws {value}"
        most = None if schema.get("maxProperties") is None else int(schema["maxProperties"])
        return self._written(pairs, more, needed, most, schema.get("minProperties", 0))

    def _others(self, schema: dict[str, Any]) -> Any:
        """The schema of properties without a name here, False for none, None for none but required ones."""
        if schema.get("unevaluatedProperties") is False:
            return False
        if "additionalProperties" in schema:
            return schema["additionalProperties"]
        return None if "properties" in schema else True

    def _value(self, name: str, inner: Any, properties: dict[str, Any], path: tuple[str, ...]) -> str:
        place = ("properties", name) if name in properties else ("additionalProperties",)
        return self._writer.value(inner, (*path, *place))

    def _check_counts(
        self, schema: dict[str, Any], path: tuple[str, ...], declared: int, required: int, is_open: bool
    ) -> None:
        """What can be counted: properties that must be there, and of a map all. A name may be written twice."""
        least, most = schema.get("minProperties", 0), schema.get("maxProperties")
        if least > required and not (least == 1 and is_open and not declared):
            raise SchemaError(
                (*path, "minProperties"), "more than the required properties cannot be demanded"
            )
        if most is not None and (most < declared or (is_open and declared)):
            raise SchemaError((*path, "maxProperties"), "only maps without named properties can be bounded")

    def _written(
        self,
        pairs: list[tuple[str, bool]],
        more: str | None,
        needed: set[str],
        most: int | None,
        least: int,
    ) -> str:
        limit = MAX_OTHERS if most is None else min(most, MAX_OTHERS)
        if not pairs:
            if more is None or limit == 0:
                return self._writer.rule('"{" ws "}"')
            filled = f'"{{" ws {more} ("," ws {more}){{0,{limit - 1}}} ws "}}"'
            if least:
                return self._writer.rule(filled, [{more.rsplit(" ", 1)[1]}])
            return self._writer.rule(f'"{{" ws "}}" | {filled}')
        later = "" if more is None else f'("," ws {more}){{0,{limit}}}'
        first = None if more is None else f'{more} ("," ws {more}){{0,{limit}}}'
        after = self._writer.rule(later or '""')
        before = self._writer.rule('""' if first is None else f'"" | {first}')
        for pair, is_required in reversed(pairs):
            before = self._writer.rule(f"{pair} {after}" if is_required else f"{pair} {after} | {before}")
            after = self._writer.rule(f'"," ws {pair} {after}' + ("" if is_required else f" | {after}"))
        return self._writer.rule(f'"{{" ws {before} ws "}}"', [needed])

    def _other_name(self, declared: dict[str, Any], path: tuple[str, ...]) -> str:
        """A name, the colon included, that is none of the declared ones. Written without escapes, so that no name can
        be spelled in two ways."""
        if not declared:
            return 'str ":"'
        if sum(map(len, declared)) > MAX_NAMED_CHARS:
            raise SchemaError(
                (*path, "additionalProperties"), "too many named properties for others to be told apart"
            )
        rest = self._writer.rule(f'{char_class(SAFE)}* "\\":"')
        return f'"\\"" {self._unlike([*declared], rest)}'

    def _unlike(self, names: list[str], rest: str) -> str:
        """What may follow the quote, or a beginning that these names share."""
        by_char: dict[str, list[str]] = {}
        for name in names:
            if name:
                by_char.setdefault(name[0], []).append(name[1:])
        options = [
            f"{literal(char)} {self._unlike(tails, rest)}"
            for char, tails in by_char.items()
            if _is_safe(char)
        ]
        options.append(f"{char_class(without(SAFE, of_chars(''.join(by_char))))} {rest}")
        if "" not in names:
            options.append('"\\":"')
        return self._writer.rule(alternatives(options))


def _is_safe(char: str) -> bool:
    return any(first <= ord(char) <= last for first, last in SAFE)
