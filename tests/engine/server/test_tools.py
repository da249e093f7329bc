"""Tools, and which of them may be called: the rows of their validation, and the fields together."""

from __future__ import annotations

from typing import Any

import pytest

from engine.server.errors import ApiError
from engine.server.tools import MAX_TOOL_BYTES, MAX_TOOLS, ToolUse, read_tool_choice, read_tools, tool_use


def tool(name: Any = "f", **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **function}}


def use(choice: Any, *names: str, parallel: bool = True) -> ToolUse | None:
    functions = read_tools("tools", [tool(name) for name in names])
    return tool_use(functions, None if choice is None else read_tool_choice("tool_choice", choice), parallel)


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def allowed(mode: str, *names: str) -> dict[str, Any]:
    return {
        "type": "allowed_tools",
        "allowed_tools": {"mode": mode, "tools": [named(name) for name in names]},
    }


def test_documents_are_written_as_models_know_them() -> None:
    schema = {"properties": {"a": {"type": "string"}}, "type": "object"}
    (function,) = read_tools("tools", [tool(strict=True, parameters=schema, description="Does f.")])
    assert list(function.document["function"].items()) == [
        ("name", "f"),
        ("description", "Does f."),
        ("parameters", schema),
    ]
    assert function.strict
    (bare,) = read_tools("tools", [tool()])
    assert bare.document == {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ("f", "tools"),
        ([5], "tools[0]"),
        ([{"function": {"name": "f"}}], "tools[0].type"),
        ([{"type": "custom", "custom": {"name": "f"}}], "tools[0].type"),
        ([{"type": "function"}], "tools[0].function"),
        ([{"type": "function", "function": "f"}], "tools[0].function"),
        ([tool(None)], "tools[0].function.name"),
        ([tool("")], "tools[0].function.name"),
        ([tool("a b")], "tools[0].function.name"),
        ([tool("a" * 65)], "tools[0].function.name"),
        ([tool(5)], "tools[0].function.name"),
        ([tool("a"), tool("b"), tool("a")], "tools[2].function.name"),
        ([tool(description=5)], "tools[0].function.description"),
        ([tool(parameters=[])], "tools[0].function.parameters"),
        ([tool(parameters={"type": "array"})], "tools[0].function.parameters.type"),
        ([tool(parameters={"x": "y" * 200_000})], "tools[0].function.parameters"),
        ([tool(strict="yes")], "tools[0].function.strict"),
        ([tool(f"f{n}") for n in range(MAX_TOOLS + 1)], "tools"),
        ([tool(f"f{n}", parameters={"x": "y" * 100_000}) for n in range(6)], "tools"),
    ],
)
def test_refused_tools(tools: Any, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        read_tools("tools", tools)
    assert (caught.value.status, caught.value.param) == (400, param)


def test_as_many_tools_as_there_may_be() -> None:
    size = MAX_TOOL_BYTES // MAX_TOOLS - 100
    functions = read_tools("tools", [tool(f"f{n}", parameters={"x": "y" * size}) for n in range(MAX_TOOLS)])
    assert len(functions) == MAX_TOOLS


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ("maybe", "tool_choice"),
        (5, "tool_choice"),
        ({}, "tool_choice.type"),
        ({"type": "custom"}, "tool_choice.type"),
        ({"type": "function"}, "tool_choice.function"),
        ({"type": "function", "function": {}}, "tool_choice.function.name"),
        ({"type": "function", "function": {"name": 5}}, "tool_choice.function.name"),
        ({"type": "allowed_tools"}, "tool_choice.allowed_tools"),
        (allowed("none", "f"), "tool_choice.allowed_tools.mode"),
        (allowed("auto"), "tool_choice.allowed_tools.tools"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}, "tool_choice.allowed_tools.tools"),
    ],
)
def test_refused_choices(choice: Any, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        read_tool_choice("tool_choice", choice)
    assert (caught.value.status, caught.value.param) == (400, param)


@pytest.mark.parametrize(
    ("choice", "mode", "names"),
    [
        (None, "auto", ["f", "g"]),
        ("auto", "auto", ["f", "g"]),
        ("required", "required", ["f", "g"]),
        (named("g"), "named", ["g"]),
        (allowed("auto", "g"), "auto", ["g"]),
        (allowed("required", "g", "f"), "required", ["f", "g"]),
    ],
)
def test_who_may_be_called(choice: Any, mode: str, names: list[str]) -> None:
    found = use(choice, "f", "g")
    assert found is not None
    assert (found.mode, [function.name for function in found.allowed]) == (mode, names)
    assert [document["function"]["name"] for document in found.documents] == ["f", "g"]
    assert found.parallel == (mode != "named")


def test_nothing_can_be_called() -> None:
    assert use("none", "f") is None
    assert use("auto") is use("none") is use(None) is None


@pytest.mark.parametrize("choice", ["required", named("f"), allowed("auto", "f")])
def test_calls_without_tools(choice: Any) -> None:
    with pytest.raises(ApiError) as caught:
        use(choice)
    assert caught.value.param == "tool_choice"


@pytest.mark.parametrize("choice", [named("h"), allowed("auto", "f", "h")])
def test_unknown_function(choice: Any) -> None:
    with pytest.raises(ApiError) as caught:
        use(choice, "f", "g")
    assert caught.value.param == "tool_choice"
    assert "'h'" in caught.value.message


def test_one_call_at_a_time() -> None:
    found = use("auto", "f", parallel=False)
    assert found is not None
    assert not found.parallel
