"""A JSON schema as a grammar in EBNF.

Place in the path: the API process writes it before a request is admitted; the core process compiles it. Every text of
the grammar is valid under the schema. Objects hold the properties in the order of the schema; without
`additionalProperties` they hold no others. White space is what `json.dumps` writes, with and without indentation.
Knows no tokens.

The shapes of the rules matter: sets of characters and rules that end in themselves make masks in microseconds, where a
repeated choice between them takes tenths of a second.
"""

from __future__ import annotations

from typing import Any

from engine.text.schema import keywords
from engine.text.schema.ebnf import alternatives, char_class, literal
from engine.text.schema.formats import FORMATS
from engine.text.schema.keywords import SchemaError
from engine.text.schema.numbers import INTEGER, NUMBER, integer_between, number_between
from engine.text.schema.objects import ObjectRules
from engine.text.schema.pointers import Pointers
from engine.text.schema.regex import SAFE, RegexError, json_string

MAX_NODES = 10_000
MAX_DEPTH = 64
"""Steps from the root: an object's property takes two."""
MAX_LENGTH = 100_000
"""Of strings and arrays: what a schema allows beyond it is not used."""
MAX_GRAMMAR_CHARS = 1 << 20

PRIMITIVES = {
    "ws": '"" | " " | "\\n" [ \\t]{0,32}',
    "str": '"\\"" strrest',
    "strrest": '"\\"" | [^"\\\\\\0-\\x1f\\ud800-\\udfff] strrest | "\\\\" escape strrest',
    "escape": '["\\\\/bfnrt] | "u" [0-9a-cA-CefEF] hex hex hex | "u" [dD] [0-7] hex hex'
    ' | "u" [dD] [89abAB] hex hex "\\\\u" [dD] [c-fC-F] hex hex',
    "hex": "[0-9a-fA-F]",
    "int": INTEGER,
    "num": NUMBER,
    "bool": '"true" | "false"',
    "any": 'str | num | bool | "null" | anyobj | anyarr',
    "anyobj": '"{" ws "}" | "{" ws str ":" ws any ("," ws str ":" ws any)* ws "}"',
    "anyarr": '"[" ws "]" | "[" ws any ("," ws any)* ws "]"',
}
"""Rules that every grammar has. Escapes of lone surrogates are no text and left out."""


def schema_grammar(schema: dict[str, Any]) -> str:
    """Raises `SchemaError` for what is not served, or has no finite answer."""
    return _Writer(schema).text()


class _Writer:
    def __init__(self, schema: dict[str, Any]) -> None:
        self._pointers = Pointers(schema)
        self._schema = schema
        self._rules: dict[str, str] = {}
        self._needs: dict[str, list[set[str]]] = {}
        """Rule → its alternatives, each as the rules that an answer cannot do without."""
        self._of_pointer: dict[str, str] = {}
        self._num_nodes = 0
        self._objects = ObjectRules(self)

    def text(self) -> str:
        root = self.value(self._schema, ())
        self._check_finite()
        lines = {"root": root} | self._rules | PRIMITIVES
        found = "\n".join(f"{name} ::= {body}" for name, body in lines.items())
        if len(found) > MAX_GRAMMAR_CHARS:
            raise SchemaError((), "the schema is too large as a whole")
        return found

    def rule(self, body: str, needs: list[set[str]] | None = None) -> str:
        """A new rule; returns its name."""
        name = f"r{len(self._rules)}"
        self._rules[name] = body
        self._needs[name] = needs if needs is not None else [set()]
        return name

    def value(self, schema: Any, path: tuple[str, ...]) -> str:
        """The rule of any value that the schema allows."""
        self._num_nodes += 1
        if self._num_nodes > MAX_NODES:
            raise SchemaError(path, f"a schema may have {MAX_NODES} parts at most")
        if len(path) > MAX_DEPTH:
            raise SchemaError(path, "the schema is nested too deeply")
        if schema is True or schema == {}:
            return "any"
        if not isinstance(schema, dict):
            raise SchemaError(path, "expected a schema that allows something")
        keywords.check(schema, path)
        if "$ref" in schema:
            return self._reference(schema["$ref"], path)
        if "const" in schema or "enum" in schema:
            return self._values(schema, path)
        for name in ("anyOf", "oneOf", "allOf"):
            if name in schema:
                return self._choice(schema[name], (*path, name))
        return self._typed(schema, path)

    def _reference(self, pointer: str, path: tuple[str, ...]) -> str:
        target, place = self._pointers.resolve(pointer, path)
        known = self._of_pointer.get(place)
        if known is None:
            known = self._of_pointer[place] = self.rule("", [])
            inner = self.value(target, path)
            self._rules[known], self._needs[known] = inner, [{inner}]
        return known

    def _values(self, schema: dict[str, Any], path: tuple[str, ...]) -> str:
        values = [schema["const"]] if "const" in schema else schema["enum"]
        types = keywords.types_of(schema, path)
        fitting = [value for value in values if types is None or keywords.is_of(value, types)]
        if not fitting:
            raise SchemaError(path, "none of the values has the schema's type")
        return self.rule(alternatives(literal(keywords.dump(value)) for value in fitting))

    def _choice(self, schemas: list[Any], path: tuple[str, ...]) -> str:
        if path[-1] == "allOf" and len(schemas) > 1:
            raise SchemaError(path, "only one schema is supported here")
        if path[-1] == "oneOf":
            self._pointers.check_disjoint(schemas, path)
        options = [self.value(each, (*path, str(index))) for index, each in enumerate(schemas)]
        return self.rule(alternatives(options), [{option} for option in options])

    def _typed(self, schema: dict[str, Any], path: tuple[str, ...]) -> str:
        types = keywords.types_of(schema, path) or keywords.implied_types(schema)
        if types is None:
            return "any"
        options = [self._of_type(name, schema, path) for name in types]
        if len(options) == 1:
            return options[0]
        return self.rule(alternatives(options), [{option} for option in options])

    def _of_type(self, name: str, schema: dict[str, Any], path: tuple[str, ...]) -> str:
        match name:
            case "object":
                return self._objects.write(schema, path)
            case "array":
                return self._array(schema, path)
            case "string":
                return self._string(schema, path)
            case "boolean":
                return "bool"
            case "null":
                return self.rule('"null"')
            case _:
                return self._number(name, schema, path)

    def _number(self, name: str, schema: dict[str, Any], path: tuple[str, ...]) -> str:
        if keywords.NUMBER.isdisjoint(schema):
            return "int" if name == "integer" else "num"
        if name == "integer":
            body = integer_between(*keywords.integer_bounds(schema))
        else:
            low, high, above, below = keywords.number_bounds(schema)
            body = number_between(low, high, above=above, below=below)
        if body is None:
            raise SchemaError(path, "no number lies between the bounds")
        return self.rule(body)

    def _string(self, schema: dict[str, Any], path: tuple[str, ...]) -> str:
        kinds = [name for name in ("pattern", "format") if name in schema]
        least, most = schema.get("minLength", 0), schema.get("maxLength")
        if not kinds and most is None and least == 0:
            return "str"
        if len(kinds) == 2 or (kinds and (least > 0 or most is not None)):
            raise SchemaError(path, "'pattern', 'format' and bounds of the length cannot be combined")
        if not kinds:
            if least > min(MAX_LENGTH, MAX_LENGTH if most is None else most):
                raise SchemaError(path, f"no string has this length (at most {MAX_LENGTH})")
            upper = MAX_LENGTH if most is None else min(most, MAX_LENGTH)
            return self.rule(f'"\\"" {char_class(SAFE)}{{{least},{upper}}} "\\""')
        if kinds == ["format"]:
            if schema["format"] not in FORMATS:
                served = ", ".join(FORMATS)
                raise SchemaError((*path, "format"), f"this format is not supported; these are: {served}")
            return self.rule(json_string(f"^({FORMATS[schema['format']]})$"))
        try:
            return self.rule(json_string(schema["pattern"]))
        except RegexError as error:
            raise SchemaError((*path, "pattern"), str(error)) from error

    def _array(self, schema: dict[str, Any], path: tuple[str, ...]) -> str:
        firsts = schema.get("prefixItems", [])
        closed = schema.get("items", True) is False or (firsts and "items" not in schema)
        least, most = schema.get("minItems", 0), min(schema.get("maxItems", MAX_LENGTH), MAX_LENGTH)
        if closed:
            most = min(most, len(firsts))
        if least > most:
            raise SchemaError(path, f"no array has this length (at most {MAX_LENGTH})")
        if most == 0:
            return self.rule('"[" ws "]"')
        heads = [
            self.value(each, (*path, "prefixItems", str(index))) for index, each in enumerate(firsts[:most])
        ]
        item = None if most == len(heads) else self.value(schema.get("items", True), (*path, "items"))
        filled = self._filled(heads, item, max(least, 1), most)
        needed = set(heads[: max(least, 1)]) | ({item} if item and max(least, 1) > len(heads) else set())
        if least > 0:
            return self.rule(f'"[" ws {filled} ws "]"', [needed])
        return self.rule(f'"[" ws "]" | "[" ws {filled} ws "]"')

    def _filled(self, heads: list[str], item: str | None, least: int, most: int) -> str:
        """Between the brackets of an array of `least` to `most` elements, one at least."""
        rest = ""
        if item is not None:
            fewest, most_more = max(0, least - max(len(heads), 1)), most - max(len(heads), 1)
            rest = f' ("," ws {item}){{{fewest},{most_more}}}' if most_more else ""
            if not heads:
                return f"{item}{rest}"
        for index in range(len(heads) - 1, 0, -1):
            more = f' "," ws {heads[index]}{rest}'
            rest = more if index < least else f" ({more.strip()})?"
        return f"{heads[0]}{rest}"

    def _check_finite(self) -> None:
        """Every rule must have a text: one that always needs itself would never end."""
        ending = set(PRIMITIVES)
        grown = True
        while grown:
            more = {
                name
                for name, options in self._needs.items()
                if name not in ending and any(option <= ending for option in options)
            }
            grown, ending = bool(more), ending | more
        if not ending >= self._needs.keys():
            raise SchemaError((), "a part of the schema always contains itself, so no answer could end")


__all__ = ["schema_grammar"]
