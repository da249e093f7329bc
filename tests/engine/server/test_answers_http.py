"""Answers with tools and reasoning through HTTP, read by the `openai` package in strict mode; tokens are scripted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState

from tests.engine.server.answer_template import TEMPLATE
from tests.engine.server.conftest import MODEL, Server, running_server
from tests.engine.server.resume_cases import CHAT
from tests.engine.server.streams import parse
from tests.engine.server.test_resume import post, relayed, resume_body
from tests.fakes.core import Script
from tests.tiny_tokenizer import write_llama_tokenizer

USER: list[Any] = [{"role": "user", "content": "How is the sea?"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "get_weather", "description": "Asks.", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "now"}},
]
ONE = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Kiel"}}\n</tool_call>'
TWO = ONE + '\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
NAMED: Any = {"type": "function", "function": {"name": "get_weather"}}


@pytest.fixture(scope="module")
def tool_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tool-model")
    write_llama_tokenizer(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@pytest.fixture
async def server(tool_model: Path, tmp_path: Path) -> AsyncIterator[Server]:
    async with running_server(tool_model, tmp_path / "journal", reasoning_parser="qwen3") as running:
        yield running


def script(server: Server, text: str, **how: Any) -> Script:
    return Script(tuple(server.services.text.tokenizer.encode(text, add_special_tokens=False)), **how)


async def whole(server: Server, **options: Any) -> Any:
    return await server.client().chat.completions.create(model=MODEL, messages=USER, **options)


async def streamed(server: Server, **options: Any) -> tuple[list[Any], Any]:
    """The chunks, and the message that the package makes of them."""
    stream = await server.client().chat.completions.create(
        model=MODEL, messages=USER, stream=True, stream_options={"include_usage": True}, **options
    )
    state, chunks = ChatCompletionStreamState(), []
    async for chunk in stream:
        chunks.append(chunk)
        state.handle_chunk(chunk)
    return chunks, state.get_final_completion()


def calls_of(answer: Any) -> list[tuple[str, str]]:
    return [
        (call.function.name, call.function.arguments) for call in answer.choices[0].message.tool_calls or []
    ]


def prompt_of(server: Server) -> str:
    vocabulary = server.services.text.tokenizer
    return b"".join(map(vocabulary.token_bytes, server.core.seen[-1].prompt_token_ids)).decode()


async def test_calls(server: Server) -> None:
    server.core.script(script(server, f"I look.\n{TWO}"))
    answer = await whole(server, tools=TOOLS)
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "I look."
    assert calls_of(answer) == [("get_weather", '{"city": "Kiel"}'), ("now", "{}")]
    ids = [call.id for call in choice.message.tool_calls]
    assert len(set(ids)) == 2
    assert all(index.startswith("call_") and len(index) == 29 for index in ids)
    assert {call.type for call in choice.message.tool_calls} == {"function"}
    assert json.dumps(TOOLS[0], ensure_ascii=False) in prompt_of(server)
    assert server.core.seen[-1].sampling.grammar is None


async def test_content_is_null_beside_calls_alone(server: Server) -> None:
    server.core.script(script(server, ONE))
    assert (await whole(server, tools=TOOLS)).choices[0].message.content is None


@pytest.mark.parametrize("per_step", [1, 3, 100])
async def test_stream_equals_whole(server: Server, per_step: int) -> None:
    text = f"<think>\nHm.\n</think>\n\nI look.\n{TWO}"
    server.core.script(script(server, text), script(server, text, per_step=per_step))
    answer = await whole(server, tools=TOOLS)
    chunks, joined = await streamed(server, tools=TOOLS)
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    firsts = [call for delta in deltas for call in delta.tool_calls or [] if call.id]
    others = [call for delta in deltas for call in delta.tool_calls or [] if not call.id]
    assert [(call.index, call.type, call.function.name) for call in firsts] == [
        (0, "function", "get_weather"),
        (1, "function", "now"),
    ]
    assert all(call.function.name is None and call.type is None for call in others)
    message, wanted = joined.choices[0].message, answer.choices[0].message
    assert (message.content, calls_of(joined)) == (wanted.content, calls_of(answer))
    assert "".join(delta.reasoning or "" for delta in deltas if hasattr(delta, "reasoning")) == "Hm."
    assert joined.choices[0].finish_reason == answer.choices[0].finish_reason == "tool_calls"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][:-1] == [None] * (
        len(deltas) - 1
    )
    assert chunks[-1].usage.completion_tokens_details == answer.usage.completion_tokens_details


async def test_ids_of_calls_differ_between_choices(server: Server) -> None:
    server.core.script(script(server, ONE), script(server, ONE))
    answer = await whole(server, tools=TOOLS, n=2)
    assert len({choice.message.tool_calls[0].id for choice in answer.choices}) == 2


@pytest.mark.parametrize(
    ("choice", "reason", "param"), [("required", "tool_calls", "tools"), (NAMED, "stop", "tools")]
)
async def test_forced_calls_are_constrained(server: Server, choice: Any, reason: str, param: str) -> None:
    server.core.script(script(server, ONE), script(server, ONE))
    answer = await whole(server, tools=TOOLS, tool_choice=choice)
    grammar = server.core.seen[-1].sampling.grammar
    assert grammar is not None
    assert (grammar.kind, grammar.param) == ("structural_tag", param)
    assert ("now" in grammar.text) == (choice == "required")
    assert answer.choices[0].finish_reason == reason
    assert calls_of(answer) == [("get_weather", '{"city": "Kiel"}')]
    _, joined = await streamed(server, tools=TOOLS, tool_choice=choice)
    assert joined.choices[0].finish_reason == reason


async def test_strict_functions_are_constrained(server: Server) -> None:
    strict = {"type": "function", "function": {**TOOLS[0]["function"], "strict": True}}
    server.core.script(script(server, "No."))
    answer = await whole(server, tools=[strict, TOOLS[1]])
    grammar = server.core.seen[-1].sampling.grammar
    assert grammar is not None
    assert "triggered_tags" in grammar.text
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("No.", "stop")


async def test_only_allowed_functions_can_be_called(server: Server) -> None:
    """The model is shown all of them, so that nothing else than the grammar keeps it from calling the others."""
    for names, is_constrained in ((["now"], True), (["get_weather", "now"], False)):
        tools = [{"type": "function", "function": {"name": name}} for name in names]
        choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": tools}}
        server.core.script(script(server, "No."))
        await whole(server, tools=TOOLS, tool_choice=choice)
        assert "get_weather" in prompt_of(server)
        grammar = server.core.seen[-1].sampling.grammar
        assert (grammar is not None) == is_constrained
        assert grammar is None or ("now" in grammar.text and "get_weather" not in grammar.text)


async def test_one_call_ends_the_answer_if_there_may_be_only_one(server: Server) -> None:
    server.core.script(script(server, TWO + " and more" * 200), script(server, TWO + " and more" * 200))
    answer = await whole(server, tools=TOOLS, parallel_tool_calls=False)
    assert calls_of(answer) == [("get_weather", '{"city": "Kiel"}')]
    assert answer.choices[0].finish_reason == "tool_calls"
    await server.core_until(lambda: len(server.core.aborted) == 1)
    chunks, joined = await streamed(server, tools=TOOLS, parallel_tool_calls=False)
    assert calls_of(joined) == calls_of(answer)
    assert chunks[-1].usage.completion_tokens == answer.usage.completion_tokens


async def test_no_tools_are_shown_or_read_if_none_may_be_called(server: Server) -> None:
    server.core.script(script(server, ONE))
    answer = await whole(server, tools=TOOLS, tool_choice="none")
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == (ONE, "stop")
    assert "get_weather" not in prompt_of(server)


async def test_a_call_cut_short(server: Server) -> None:
    server.core.script(script(server, ONE[:60], finish="length"), script(server, ONE))
    answer = await whole(server, tools=TOOLS)
    assert answer.choices[0].finish_reason == "length"
    assert calls_of(answer) == [("get_weather", '{"city": "K')]
    # Stop strings count wherever the model writes them.
    answer = await whole(server, tools=TOOLS, stop=["iel"])
    assert (answer.choices[0].finish_reason, answer.choices[0].stop_reason) == ("stop", "iel")
    assert calls_of(answer) == [("get_weather", '{"city": "K')]


async def test_malformed_calls_are_content(server: Server) -> None:
    text = '<tool_call>{"name": get_weather}</tool_call>\n'
    server.core.script(script(server, text), script(server, text, per_step=2))
    answer = await whole(server, tools=TOOLS)
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == (text, "stop")
    assert answer.choices[0].message.tool_calls is None
    _, joined = await streamed(server, tools=TOOLS)
    assert joined.choices[0].message.content == text


async def test_reasoning(server: Server) -> None:
    """Duty engine-21: reasoning has both of its names, whole and streamed."""
    text = "Let me see.\n</think>\n\nGrey."
    server.core.script(script(server, f"<think>\n{text}"), script(server, text))
    answer = await whole(server)
    message = answer.choices[0].message
    assert (message.reasoning, message.reasoning_content, message.content) == (
        "Let me see.",
        "Let me see.",
        "Grey.",
    )
    counted = answer.usage.completion_tokens_details.reasoning_tokens
    assert 0 < counted < answer.usage.completion_tokens
    # The template opens the reasoning.
    chunks, _ = await streamed(server, extra_body={"chat_template_kwargs": {"think": True}})
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    reasoning = [delta for delta in deltas if "reasoning" in delta.model_extra]
    assert "".join(delta.reasoning for delta in reasoning) == "Let me see."
    assert all(delta.reasoning == delta.reasoning_content for delta in reasoning)
    assert "".join(delta.content or "" for delta in deltas) == "Grey."
    assert 0 < chunks[-1].usage.completion_tokens_details.reasoning_tokens <= counted


@pytest.mark.parametrize(
    ("begun", "is_reasoning"), [("<think>Let", True), ("<think>Hm</think>Let", False), ("Let", False)]
)
async def test_reasoning_of_a_continued_message(server: Server, begun: str, is_reasoning: bool) -> None:
    server.core.script(script(server, " me</think>ok"))
    turns = [*USER, {"role": "assistant", "content": begun}]
    extra = {"continue_final_message": True, "add_generation_prompt": False}
    answer = await server.client().chat.completions.create(model=MODEL, messages=turns, extra_body=extra)
    message: Any = answer.choices[0].message
    if is_reasoning:
        assert (message.reasoning, message.content) == (" me", "ok")
    else:
        assert message.content == " me</think>ok"
        assert "reasoning" not in message.model_extra


async def test_an_answer_of_reasoning_alone_has_no_content(server: Server) -> None:
    server.core.script(script(server, "<think>Hm", finish="length"))
    answer = await whole(server)
    assert (answer.choices[0].message.content, answer.choices[0].message.reasoning) == (None, "Hm")
    assert answer.usage.completion_tokens_details.reasoning_tokens < answer.usage.completion_tokens


async def test_past_calls_and_reasoning_reach_the_template(server: Server) -> None:
    server.core.script(script(server, f"<think>Hm.</think>{ONE}"), script(server, "Fine."))
    first = (await whole(server, tools=TOOLS)).choices[0].message
    turns: list[Any] = [
        *USER,
        first.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "7 degrees"},
    ]
    await server.client().chat.completions.create(model=MODEL, messages=turns, tools=TOOLS)
    assert prompt_of(server).endswith(
        'assistant: <think>Hm.</think><tool_call>{"name": "get_weather", "arguments": {"city": "Kiel"}}</tool_call>'
        "\ntool: 7 degrees\nassistant: "
    )


async def test_a_grammar_leaves_the_reasoning_free(server: Server) -> None:
    server.core.script(script(server, "{}"), script(server, "{}"), script(server, "{}"))
    json_object: Any = {"type": "json_object"}
    await whole(server, response_format=json_object)
    grammar = server.core.seen[-1].sampling.grammar
    assert grammar is not None
    assert (grammar.kind, grammar.param) == ("structural_tag", "response_format")
    answer = await whole(server, response_format=json_object, tools=TOOLS)
    grammar = server.core.seen[-1].sampling.grammar
    assert grammar is not None
    assert '"or"' in grammar.text
    assert answer.choices[0].message.content == "{}"


async def test_journal_and_metrics_call_it_a_stop(server: Server) -> None:
    server.core.script(script(server, ONE))
    await whole(server, tools=TOOLS)
    async with server.session() as session:
        page = await (await session.get("/internal/usage")).json()
        metrics = await (await session.get("/metrics")).text()
    assert [record["finish_reason"] for record in page["records"] if record["kind"] == "end"] == ["stop"]
    assert 'finished_reason="tool_calls"' not in metrics


async def test_refused_where_tools_cannot_be_called(
    model_dir: Path, tool_model: Path, tmp_path: Path
) -> None:
    cases: list[tuple[Path, dict[str, Any], dict[str, Any], str]] = [
        (model_dir, {}, {}, "tools"),
        (tool_model, {"tool_call_parser": "none"}, {}, "tools"),
        (tool_model, {"enable_auto_tool_choice": False}, {}, "tool_choice"),
    ]
    for number, (model, flags, options, param) in enumerate(cases):
        async with running_server(model, tmp_path / f"journal-{number}", **flags) as server:
            with pytest.raises(openai.BadRequestError) as caught:
                await whole(server, tools=TOOLS, **options)
            assert (caught.value.param, caught.value.code) == (param, "unsupported_parameter")
            if param == "tool_choice":
                server.core.script(script(server, ONE))
                assert calls_of(await whole(server, tools=TOOLS, tool_choice="required"))


async def test_special_markers_are_seen_by_the_parser(tool_model: Path, tmp_path: Path) -> None:
    """The tokenizer's own special tokens are skipped, unless they mark a call."""
    folder = tmp_path / "special"
    folder.mkdir()
    write_llama_tokenizer(folder)
    document = json.loads((folder / "tokenizer.json").read_text())
    for token in document["added_tokens"]:
        if token["content"] == "<|start_header_id|>":
            token["content"] = "<|python_tag|>"
    text = json.dumps(document).replace('"<|start_header_id|>"', '"<|python_tag|>"')
    (folder / "tokenizer.json").write_text(text)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    async with running_server(folder, tmp_path / "journal", tool_call_parser="llama3_json") as server:
        tagged = '<|python_tag|>{"name": "now", "parameters": {}}<|end_header_id|>'
        server.core.script(script(server, tagged), script(server, tagged))
        answer = await whole(server, tools=TOOLS)
        assert (calls_of(answer), answer.choices[0].message.content) == ([("now", "{}")], None)
        plain = await whole(server)
        assert plain.choices[0].message.content == '{"name": "now", "parameters": {}}'


@pytest.mark.parametrize("parallel", [True, False])
async def test_a_stream_with_calls_goes_on_after_any_cut(server: Server, parallel: bool) -> None:
    """Reasoning, content and calls, cut behind one block or another: ids of calls and finish reason included."""
    text = f"<think>\nHm.\n</think>\n\nI look.\n{TWO}"
    request = {
        "model": MODEL,
        "messages": USER,
        "tools": TOOLS,
        "stream": True,
        "parallel_tool_calls": parallel,
    }
    request["stream_options"] = {"include_usage": True}
    whole_script = script(server, text)
    assert whole_script.tokens is not None
    server.core.script(whole_script)
    blocks = parse(await post(server, CHAT, request))
    last = max(number for number, block in enumerate(blocks, 1) if block.ended)
    assert last > 20
    for cut in [*range(1, last - 2, 3), last - 1, last]:
        body = resume_body(blocks[:cut], request)
        server.core.script(Script(whole_script.tokens[len(body["outputs"][0]) :]))
        rest = parse(await post(server, "/internal/resume", body))
        assert relayed(blocks[:cut]) + relayed(rest) == relayed(blocks), cut


async def test_schemas_count_only_where_they_are_followed(server: Server) -> None:
    strange = {
        "type": "function",
        "function": {"name": "f", "parameters": {"properties": {"a": {"type": "x"}}}},
    }
    server.core.script(script(server, "Hello"))
    assert (await whole(server, tools=[*TOOLS, strange])).choices[0].message.content == "Hello"
    followed = {"type": "function", "function": {**TOOLS[0]["function"], "strict": True}}
    server.core.script(script(server, "Hello"))
    assert (await whole(server, tools=[followed, strange])).choices[0].message.content == "Hello"
    strict = {"type": "function", "function": {**strange["function"], "strict": True}}
    for options in ({"tools": [*TOOLS, strange], "tool_choice": "required"}, {"tools": [*TOOLS, strict]}):
        with pytest.raises(openai.BadRequestError) as caught:
            await whole(server, **options)
        assert (caught.value.param or "").startswith("tools[2].function.parameters.properties.a")
    assert len(server.core.seen) == 2
