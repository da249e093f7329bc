"""Forced tool calls on a real engine with a tiny random model: whatever it says, it says it in calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState

from tests.engine.server.answer_template import TEMPLATE
from tests.engine.test_core_process import Engine, serving
from tests.models import write_tiny_llama

MESSAGES: list[Any] = [{"role": "user", "content": "How is the sea?"}]
SCHEMAS: Mapping[str, Any] = {
    "get_weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "pattern": "^[a-z ]{0,6}$"},
            "days": {"type": "integer", "minimum": 1, "maximum": 9},
        },
        "required": ["city", "days"],
        "additionalProperties": False,
    },
    "count-ships": {
        "type": "object",
        "properties": {"all": {"type": "boolean"}},
        "additionalProperties": False,
    },
}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": schema, "strict": True}}
    for name, schema in SCHEMAS.items()
]
NAMED = {"type": "function", "function": {"name": "get_weather"}}


async def ask(engine: Engine, choice: Any, **fields: Any) -> Any:
    values: dict[str, Any] = {"max_tokens": 300, "temperature": 1.2, "seed": 3, "tools": TOOLS, **fields}
    client = engine.client
    return await client.chat.completions.create(model="m", messages=MESSAGES, tool_choice=choice, **values)


def check(call: Any) -> None:
    arguments = json.loads(call.function.arguments)
    schema = SCHEMAS[call.function.name]
    assert arguments.keys() <= schema["properties"].keys()
    assert set(schema.get("required", ())) <= arguments.keys()
    assert isinstance(arguments.get("days", 1), int)


@pytest.mark.parametrize("parser", ["hermes", "pythonic"])
async def test_forced_calls(tmp_path: Path, parser: str) -> None:
    write_tiny_llama(tmp_path / "model")
    (tmp_path / "model" / "chat_template.jinja").write_text(TEMPLATE)
    flags = ("--tool-call-parser", parser, "--reasoning-parser", "none", "--enable-auto-tool-choice")
    async with serving(tmp_path / "model", *flags) as engine:
        some = await ask(engine, "required", n=4, parallel_tool_calls=False)
        for choice in some.choices:
            assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
            (call,) = choice.message.tool_calls
            check(call)
        named = (await ask(engine, NAMED)).choices[0]
        assert named.finish_reason == "stop"
        assert named.message.tool_calls[0].function.name == "get_weather"
        check(named.message.tool_calls[0])
        # A random model may go on calling for as long as it is allowed to.
        several = (await ask(engine, "required", logit_bias={"4": 5})).choices[0]
        for call in several.message.tool_calls[: None if several.finish_reason == "tool_calls" else -1]:
            check(call)
        state = ChatCompletionStreamState()
        async for chunk in await ask(engine, "required", logit_bias={"4": 5}, stream=True):
            state.handle_chunk(chunk)
        streamed = state.get_final_completion().choices[0]
        assert streamed.finish_reason == several.finish_reason
        functions = [call.function for call in streamed.message.tool_calls or []]
        assert [(function.name, function.arguments) for function in functions] == [
            (call.function.name, call.function.arguments) for call in several.message.tool_calls
        ]
        free = (await ask(engine, "auto", max_tokens=40)).choices[0]
        assert free.message.content or free.message.tool_calls
