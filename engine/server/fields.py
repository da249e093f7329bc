"""Readers of single body fields: a JSON value in, a checked Python value out, or `ApiError` naming the field.

The validation tables of `protocol` are made of these. A `null` is the same as an absent field. Each reader carries
the JSON schema of what it takes, for the OpenAPI document: what the schema forbids is refused, and what more than a
schema can say decides about is refused besides. Knows no request as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from engine.server.errors import ApiError, invalid, missing, unsupported

Schema = Mapping[str, Any]
"""JSON Schema, in the dialect of OpenAPI 3.1."""

INT64_MAX = 2**63 - 1
_EXACT_MAX = 2**53
"""Whole numbers up to here are the same as floats."""
_TOKEN_ID_MAX = 2**31 - 1
_IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Reader:
    """Called with (field's path, JSON value); gives the checked value."""

    read: Callable[[str, Any], Any]
    schema: Schema

    def __call__(self, name: str, value: Any) -> Any:
        return self.read(name, value)


@dataclass(frozen=True, slots=True)
class Field:
    """One row of a validation table."""

    read: Reader
    default: Any = None
    required: bool = False


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A field that would change the answer and is not served; `neutral` values say nothing."""

    why: str
    neutral: tuple[Any, ...] = ()


def read_fields(body: Mapping[str, Any], table: Mapping[str, Field]) -> dict[str, Any]:
    """Every field of the table, read or defaulted."""
    values: dict[str, Any] = {}
    for name, field in table.items():
        value = body.get(name)
        if value is not None:
            values[name] = field.read(name, value)
        elif field.required:
            raise missing(name)
        else:
            values[name] = field.default
    return values


def refuse_unsupported(body: Mapping[str, Any], table: Mapping[str, Unsupported]) -> None:
    for name, row in table.items():
        value = body.get(name)
        if value is None or any(type(value) is type(ok) and value == ok for ok in row.neutral):
            continue
        raise unsupported(name, row.why)


def without_effect(body: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Fields that say something which nobody reads."""
    return [name for name, value in body.items() if value is not None and name not in known]


def number(low: float, high: float) -> Reader:
    def read(name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise invalid(f"Invalid type for '{name}': expected a number, got {kind_of(value)}.", name)
        if not low <= value <= high:
            message = f"Invalid value for '{name}': must be between {low:g} and {high:g}, got {value}."
            raise invalid(message, name)
        return float(value)

    return Reader(read, {"type": "number", "minimum": low, "maximum": high})


def integer(low: int, high: int = INT64_MAX) -> Reader:
    def read(name: str, value: Any) -> int:
        if type(value) is float and value.is_integer() and abs(value) <= _EXACT_MAX:
            value = int(value)  # 16.0 is an integer in JSON, and some clients write all numbers so
        if isinstance(value, bool) or not isinstance(value, int):
            raise invalid(f"Invalid type for '{name}': expected an integer, got {kind_of(value)}.", name)
        if not low <= value <= high:
            edge = f"at least {low}" if high == INT64_MAX else f"between {low} and {high}"
            raise invalid(f"Invalid value for '{name}': must be {edge}, got {value}.", name)
        return value

    return Reader(read, {"type": "integer", "minimum": low, "maximum": high})


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise invalid(f"Invalid type for '{name}': expected a boolean, got {kind_of(value)}.", name)
    return value


flag = Reader(_flag, {"type": "boolean"})


def text(max_chars: int) -> Reader:
    def read(name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise invalid(f"Invalid type for '{name}': expected a string, got {kind_of(value)}.", name)
        if len(value) > max_chars:
            raise invalid(f"Invalid value for '{name}': at most {max_chars} characters.", name)
        return value

    return Reader(read, {"type": "string", "maxLength": max_chars})


IDENTIFIER: Schema = {"type": "string", "pattern": f"^{_IDENTIFIER.pattern}$"}


def identifier(name: str, value: Any) -> str:
    """What functions and schemas are called; required."""
    if value is None:
        raise missing(name)
    if not isinstance(value, str) or not _IDENTIFIER.fullmatch(value):
        raise invalid(f"Invalid value for '{name}': 1 to 64 letters, digits, underscores or dashes.", name)
    return value


def one_of(*words: str) -> Reader:
    read_text = text(64)

    def read(name: str, value: Any) -> str:
        word: str = read_text(name, value)
        if word not in words:
            expected = ", ".join(words)
            raise invalid(f"Invalid value for '{name}': expected one of {expected}, got {shown(word)}.", name)
        return word

    return Reader(read, {"type": "string", "enum": list(words)})


def _obj(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise invalid(f"Invalid type for '{name}': expected an object, got {kind_of(value)}.", name)
    return value


obj = Reader(_obj, {"type": "object"})


def items(max_items: int, item: Reader, *, min_items: int = 0) -> Reader:
    """An array whose elements are read one by one; their paths are `name[i]`."""
    read_item = item.read

    def read(name: str, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise invalid(f"Invalid type for '{name}': expected an array, got {kind_of(value)}.", name)
        if not min_items <= len(value) <= max_items:
            raise invalid(
                f"Invalid value for '{name}': expected {min_items} to {max_items} elements, "
                f"got {len(value)}.",
                name,
            )
        try:
            return tuple([read_item(name, item) for item in value])
        except ApiError:  # only now is it worth a path for every element
            return tuple([read_item(f"{name}[{index}]", item) for index, item in enumerate(value)])

    return Reader(read, {"type": "array", "items": item.schema, "minItems": min_items, "maxItems": max_items})


def token_ids(max_items: int, *, min_items: int = 0) -> Reader:
    """An array of token ids, of any vocabulary. Looks at millions of them without a call for each."""
    read_items = items(max_items, integer(0, _TOKEN_ID_MAX), min_items=min_items)

    def read(name: str, value: Any) -> tuple[int, ...]:
        plain = (
            isinstance(value, list) and min_items <= len(value) <= max_items and {*map(type, value)} == {int}
        )
        if plain and min(value) >= 0 and max(value) <= _TOKEN_ID_MAX:
            return tuple(value)
        found: tuple[int, ...] = read_items(name, value)
        return found

    return Reader(read, read_items.schema)


def stops(max_items: int, max_chars: int) -> Reader:
    """A string or an array of strings; empty strings are refused since they would end everything."""
    read_text = text(max_chars)

    def read_stop(name: str, value: Any) -> str:
        stop: str = read_text(name, value)
        if not stop:
            raise invalid(f"Invalid value for '{name}': a stop string must not be empty.", name)
        return stop

    one = Reader(read_stop, {**read_text.schema, "minLength": 1})
    read_items = items(max_items, one)

    def read(name: str, value: Any) -> tuple[str, ...]:
        stops_: tuple[str, ...] = (
            (read_stop(name, value),) if isinstance(value, str) else read_items(name, value)
        )
        return stops_

    return Reader(read, {"anyOf": [one.schema, read_items.schema]})


def words(max_items: int, max_chars: int) -> Reader:
    """An array of strings that are not empty."""
    read_text = text(max_chars)

    def read_word(name: str, value: Any) -> str:
        word: str = read_text(name, value)
        if not word.strip():
            raise invalid(f"Invalid value for '{name}': a word must not be empty.", name)
        return word

    return items(max_items, Reader(read_word, {**read_text.schema, "minLength": 1}))


def logit_bias(max_items: int) -> Reader:
    """Token id (as a JSON key) → bias."""
    read_bias = number(-100, 100)

    def read(name: str, value: Any) -> dict[int, float]:
        pairs = obj(name, value)
        if len(pairs) > max_items:
            raise invalid(f"Invalid value for '{name}': at most {max_items} tokens.", name)
        biases: dict[int, float] = {}
        for key, bias in pairs.items():
            if not (key.isascii() and key.isdigit() and len(key) <= 10):
                raise invalid(f"Invalid key in '{name}': '{key[:40]}' is no token id.", name)
            biases[int(key)] = read_bias(f"{name}.{key}", bias)
        return biases

    schema = {
        "type": "object",
        "maxProperties": max_items,
        "propertyNames": {"pattern": "^[0-9]{1,10}$"},
        "additionalProperties": read_bias.schema,
    }
    return Reader(read, schema)


def prompts(max_prompts: int, max_chars: int) -> Reader:
    """A string, an array of strings, an array of token ids, or an array of arrays of token ids."""
    read_text, read_ids = text(max_chars), token_ids(1 << 22, min_items=1)
    texts, lists = items(max_prompts, read_text, min_items=1), items(max_prompts, read_ids, min_items=1)

    def read(name: str, value: Any) -> tuple[str | tuple[int, ...], ...]:
        if isinstance(value, str):
            return (read_text(name, value),)
        if not isinstance(value, list) or not value:
            raise invalid(f"Invalid type for '{name}': expected a string or a non-empty array.", name)
        if isinstance(value[0], int | float) and not isinstance(value[0], bool):
            return (read_ids(name, value),)
        read_items = texts if isinstance(value[0], str) else lists
        found: tuple[str | tuple[int, ...], ...] = read_items(name, value)
        return found

    kinds = (read_text, texts, read_ids, lists)
    return Reader(read, {"anyOf": [kind.schema for kind in kinds]})


def shown(value: Any) -> str:
    """A wrong value in a message: only strings are worth printing, and only their beginning."""
    return repr(value[:40]) if isinstance(value, str) else kind_of(value)


def kind_of(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "an integer"}
    return names.get(type(value), "a number" if isinstance(value, float) else "null")
