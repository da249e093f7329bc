"""What a body may ask for, and which field is named when it may not."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from msgspec.structs import replace

from engine.server import structured
from engine.server.errors import ApiError
from engine.text.schema import schema_grammar
from tests.engine.server.conftest import MODEL, Server
from tests.fakes.core import ready

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ANY_OBJECT = schema_grammar({"type": "object"})
USER = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ({"json": SCHEMA}, "ebnf", schema_grammar(SCHEMA)),
        ({"json": json.dumps(SCHEMA)}, "ebnf", schema_grammar(SCHEMA)),
        ({"json_object": True}, "ebnf", ANY_OBJECT),
        ({"regex": "[a-z]+"}, "ebnf", "root ::= [a-z]{1,}"),
        ({"choice": ["yes", "no", "yes"]}, "choice", '["yes","no"]'),
        ({"grammar": 'root ::= "a"'}, "ebnf", 'root ::= "a"'),
        ({"regex": "a", "json": None}, "ebnf", "root ::= [a]"),
    ],
)
def test_structured_outputs(value: dict[str, Any], kind: str, text: str) -> None:
    spec = structured.structured_outputs("structured_outputs", value)
    assert (spec.kind, spec.text) == (kind, text)


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ([], ""),
        ({}, ""),
        ({"regex": "a", "choice": ["a"]}, ""),
        ({"lark": "a"}, ".lark"),
        ({"json": ""}, ".json"),
        ({"json": "[1]"}, ".json"),
        ({"json": 5}, ".json"),
        ({"json": {"description": "x" * structured.MAX_SCHEMA_BYTES}}, ".json"),
        ({"json": {"type": "strange"}}, ".json.type"),
        ({"json": {"properties": {"a": {"not": {}}}}}, ".json.properties.a.not"),
        ({"json": '{"items":' * 100 + "{}" + "}" * 100}, f".json{'.items' * 65}"),
        ({"json": '{"items":' * 500 + "{}" + "}" * 500}, ".json"),
        ({"json": '{"items":' * 10_000 + "{}" + "}" * 10_000}, ".json"),
        ({"json_object": False}, ".json_object"),
        ({"json_object": {}}, ".json_object"),
        ({"regex": ""}, ".regex"),
        ({"regex": 5}, ".regex"),
        ({"regex": "(?=a)"}, ".regex"),
        ({"regex": "("}, ".regex"),
        ({"regex": "a" * (structured.MAX_REGEX_CHARS + 1)}, ".regex"),
        ({"grammar": "  "}, ".grammar"),
        ({"grammar": "a" * (structured.MAX_GRAMMAR_CHARS + 1)}, ".grammar"),
        ({"choice": "a"}, ".choice"),
        ({"choice": []}, ".choice"),
        ({"choice": ["a", ""]}, ".choice[1]"),
        ({"choice": ["a", 5]}, ".choice[1]"),
        ({"choice": ["a"] * (structured.MAX_CHOICES + 1)}, ".choice"),
        ({"choice": ["a" * 40_000, "b" * 40_000]}, ".choice"),
    ],
)
def test_refused_structured_outputs(value: Any, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        structured.structured_outputs("structured_outputs", value)
    assert (caught.value.status, caught.value.param) == (400, f"structured_outputs{param}")


def test_response_format() -> None:
    assert structured.response_format("response_format", {"type": "text"}) is None
    spec = structured.response_format("response_format", {"type": "json_object"})
    assert spec is not None
    assert (spec.kind, spec.text) == ("ebnf", ANY_OBJECT)
    named = {"type": "json_schema", "json_schema": {"name": "A_b-1", "schema": SCHEMA, "strict": True}}
    spec = structured.response_format("response_format", named)
    assert spec is not None
    assert spec.text == schema_grammar(SCHEMA)
    assert spec.param == "response_format.json_schema.schema"


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("json_object", ""),
        ({}, ".type"),
        ({"type": "grammar"}, ".type"),
        ({"type": "json_schema"}, ".json_schema"),
        ({"type": "json_schema", "json_schema": []}, ".json_schema"),
        ({"type": "json_schema", "json_schema": {"schema": SCHEMA}}, ".json_schema.name"),
        ({"type": "json_schema", "json_schema": {"name": "a b", "schema": SCHEMA}}, ".json_schema.name"),
        ({"type": "json_schema", "json_schema": {"name": "a"}}, ".json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"name": "a", "schema": [1]}}, ".json_schema.schema"),
        (
            {"type": "json_schema", "json_schema": {"name": "a", "schema": {}, "strict": 1}},
            ".json_schema.strict",
        ),
    ],
)
def test_refused_response_format(value: Any, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        structured.response_format("response_format", value)
    assert (caught.value.status, caught.value.param) == (400, f"response_format{param}")


async def test_the_core_hears_of_it(server: Server) -> None:
    await server.client().chat.completions.create(
        model=MODEL, messages=USER, max_tokens=3, n=2, response_format={"type": "json_object"}
    )
    specs = [request.sampling.grammar for request in server.core.seen]
    assert [spec and spec.text for spec in specs] == [ANY_OBJECT] * 2


async def test_conflicts(server: Server) -> None:
    client = server.client()
    wanted = {"model": MODEL, "messages": USER, "response_format": {"type": "json_object"}}
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(**wanted, extra_body={"ignore_eos": True})
    assert caught.value.param == "ignore_eos"
    large = {"grammar": 'root ::= "' + "x" * 60_000 + '"'}
    with pytest.raises(openai.BadRequestError, match="too large") as caught:
        await client.chat.completions.create(
            model=MODEL, messages=USER, n=100, extra_body={"structured_outputs": large}
        )
    assert caught.value.param == "structured_outputs.grammar"
    await server.kill_core()
    await server.new_core(ready("epoch-2", has_grammars=False))
    with pytest.raises(openai.BadRequestError, match="not installed") as caught:
        await client.chat.completions.create(**wanted)
    assert (caught.value.param, caught.value.code) == ("response_format", "unsupported_parameter")
    await server.kill_core()
    await server.new_core(replace(ready("epoch-3"), eos_token_ids=()))
    with pytest.raises(openai.BadRequestError, match="no end token") as caught:
        await client.chat.completions.create(**wanted)
    assert (caught.value.param, caught.value.code) == ("response_format", "unsupported_parameter")
    assert server.core.seen == []
