"""`/v1/responses` through the strict `openai` client: whole, streamed by hand, and through its stream helper."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.fakes import replies
from tests.fakes.engine import FakeEngine
from tests.fakes.script import TOO_LONG, Script
from tests.gateway.http.test_batch_routes import begin, content, wait
from tests.harness import SERVED, Gateway, Tenant

COST = 3 * 100 + 3 * 1000
TOOL: Any = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": True}


def strict(gateway: Gateway, tenant: Tenant) -> openai.AsyncOpenAI:
    return gateway.client(tenant, _strict_response_validation=True)


async def test_a_whole_answer_and_its_bill(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty A2: one response is one settled request, under its own endpoint."""
    tenant = await gateway.serve(engine)
    engine.default = Script(cached_tokens=1)
    answer = await strict(gateway, tenant).responses.create(
        model=SERVED,
        instructions="be",
        input=[{"role": "user", "content": [{"type": "input_text", "text": "one two"}]}],
        max_output_tokens=50,
        metadata={"a": "b"},
        temperature=0.5,
        user="u1",
        store=False,
    )
    assert (answer.object, answer.status, answer.model, answer.output_text) == (
        "response",
        "completed",
        SERVED,
        "one two",
    )
    assert (answer.metadata, answer.temperature, answer.max_output_tokens) == ({"a": "b"}, 0.5, 50)
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens) == (3, 2, 5)
    assert answer.usage.input_tokens_details.cached_tokens == 1
    [event] = await gateway.events(1)
    assert (event["endpoint"], event["status"], event["user_ref"] is not None) == ("responses", "ok", True)
    assert event["amount_nanousd"] == 2 * 100 + 10 + 2 * 1000
    assert answer.id == f"resp_{event['request_id'].removeprefix('req_')}"
    [seen] = engine.requests
    assert seen.path == "/v1/chat/completions"
    assert seen.body["messages"] == [
        {"role": "system", "content": "be"},
        {"role": "user", "content": [{"type": "text", "text": "one two"}]},
    ]
    assert seen.body["max_completion_tokens"] == 50
    assert not {"input", "instructions", "store", "metadata", "max_output_tokens"} & seen.body.keys()


async def test_a_stream_by_hand_has_openais_order(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty A2: a streamed response is one settled request too."""
    tenant = await gateway.serve(engine)
    stream = await strict(gateway, tenant).responses.create(model=SERVED, input="one two three", stream=True)
    events = [event async for event in stream]
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * 3,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last = events[-1]
    assert last.type == "response.completed"
    assert (last.response.output_text, last.response.model) == ("one two three", SERVED)
    assert last.response.usage is not None
    assert last.response.usage.output_tokens == 3
    [event] = await gateway.events(1)
    assert (event["amount_nanousd"], event["is_stream"], event["endpoint"]) == (COST, True, "responses")


async def test_the_stream_helper_reads_it(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    async with strict(gateway, tenant).responses.stream(model=SERVED, input="one two three") as stream:
        text = "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])
        final = await stream.get_final_response()
    assert (text, final.output_text, final.status) == ("one two three", "one two three", "completed")
    await gateway.events(1)


class Place(BaseModel):
    city: str


async def test_json_out_is_parsed_by_the_helpers(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    engine.default = Script(tokens=('{"city":', '"Rome"}'))
    client = strict(gateway, tenant)
    parsed = await client.responses.parse(model=SERVED, input="where", text_format=Place)
    assert parsed.output_parsed == Place(city="Rome")
    async with client.responses.stream(model=SERVED, input="where", text_format=Place) as stream:
        final = await stream.get_final_response()
    assert final.output_parsed == Place(city="Rome")
    for seen in engine.requests:
        asked = seen.body["response_format"]
        assert (asked["type"], asked["json_schema"]["name"], asked["json_schema"]["strict"]) == (
            "json_schema",
            "Place",
            True,
        )
        assert asked["json_schema"]["schema"]["properties"] == {"city": {"title": "City", "type": "string"}}
    await gateway.events(2)


def calls(head: dict[str, Any]) -> bytes:
    """Reasoning, words, and two calls, as an engine streams them."""
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "reasoning_content": "hm"},
        {"content": "Let "},
        {"content": "me."},
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "call_a",
                    "type": "function",
                    "function": {"name": "weather", "arguments": ""},
                }
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
        {
            "tool_calls": [
                {
                    "index": 1,
                    "id": "call_b",
                    "type": "function",
                    "function": {"name": "weather", "arguments": "{}"},
                }
            ]
        },
    ]
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    chunks.append({**head, "choices": [], "usage": replies.Usage(4, 9).json()})
    return b": still here\n\n" + b"".join(map(replies.sse, chunks)) + replies.DONE


async def test_tools_both_ways(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    head = {"id": "c", "object": "chat.completion.chunk", "created": 7, "model": engine.model}
    engine.script(Script(raw=calls(head), raw_piece=5))
    client = strict(gateway, tenant)
    async with client.responses.stream(model=SERVED, input="weather?", tools=[TOOL], tool_choice={"type": "function", "name": "weather"}) as stream:  # fmt: skip
        kinds = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == 4
    assert kinds.count("response.function_call_arguments.done") == 2
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call", "function_call"]
    first: Any = final.output[2]
    assert (first.call_id, first.name, first.arguments) == ("call_a", "weather", '{"a":1}')
    [seen] = engine.requests
    assert seen.body["tools"] == [
        {
            "type": "function",
            "function": {"name": "weather", "parameters": {"type": "object"}, "strict": True},
        }
    ]
    assert seen.body["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    turn: Any = [
        {"role": "user", "content": "weather?"},
        *(item.model_dump(exclude_none=True) for item in final.output),
        {"type": "function_call_output", "call_id": "call_a", "output": "rain"},
        {"type": "function_call_output", "call_id": "call_b", "output": "sun"},
    ]
    for item in turn:
        item.pop("parsed_arguments", None)
    answer = await client.responses.create(model=SERVED, input=turn, tools=[TOOL])
    assert answer.output_text == "sun"
    roles = [
        (message["role"], len(message.get("tool_calls", ())))
        for message in engine.requests[1].body["messages"]
    ]
    assert roles == [("user", 0), ("assistant", 2), ("tool", 0), ("tool", 0)]
    events = await gateway.events(2)
    assert events[0]["completion_tokens"] == 9


async def test_cut_by_its_maximum_it_is_incomplete(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    client = strict(gateway, tenant)
    whole = await client.responses.create(model=SERVED, input="one two three", max_output_tokens=2)
    stream = await client.responses.create(
        model=SERVED, input="one two three", max_output_tokens=2, stream=True
    )
    last = [event async for event in stream][-1]
    assert last.type == "response.incomplete"
    for answer in (whole, last.response):
        assert (answer.status, answer.output_text) == ("incomplete", "one two")
        assert answer.incomplete_details is not None
        assert answer.incomplete_details.reason == "max_output_tokens"
    await gateway.events(2)


async def test_an_engine_that_dies_in_the_middle_ends_the_stream_with_failed(
    gateway: Gateway, engine: FakeEngine
) -> None:
    tenant = await gateway.serve(engine)
    engine.default = Script(fail_after=2)
    stream = await strict(gateway, tenant).responses.create(model=SERVED, input="one two three", stream=True)
    events = [event async for event in stream]
    last = events[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert (last.response.status, last.response.error.code) == ("failed", "server_error")
    assert [event.sequence_number for event in events] == list(range(len(events)))
    [event] = await gateway.events(1)
    assert (event["status"], event["completion_tokens"]) == ("partial", 2)


async def test_errors_before_the_first_event_are_answers(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    engine.default = Script(refuse=TOO_LONG)
    client = strict(gateway, tenant)
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model=SERVED, input="x", stream=stream)
        assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError):
        await client.responses.create(model="nobodys", input="x")
    await gateway.events(2)


UNSUPPORTED: list[tuple[dict[str, Any], str]] = [
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"background": True}, "background"),
    ({"store": True}, "store"),
    ({"conversation": "conv_1"}, "conversation"),
    ({"truncation": "auto"}, "truncation"),
    ({"include": ["reasoning.encrypted_content"]}, "include"),
    ({"reasoning": {"summary": "auto"}}, "reasoning.summary"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"tool_choice": {"type": "file_search"}}, "tool_choice"),
    ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].type"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
]


async def test_what_needs_state_or_tools_of_ours_is_named(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    for fields, param in UNSUPPORTED:
        body = {"model": SERVED, "input": "x", **fields}
        answer = await gateway.request("POST", "/v1/responses", body, tenant.key)
        error = (await answer.json())["error"]
        assert (answer.status, error["code"], error["param"]) == (400, "unsupported_parameter", param)
    assert engine.requests == []


async def test_lines_of_a_batch(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    client = strict(gateway, tenant)
    line = {
        "custom_id": "a",
        "method": "POST",
        "url": "/v1/responses",
        "body": {"model": SERVED, "input": "one two"},
    }
    batch = await wait(client, await begin(client, [line], "/v1/responses"))
    [result] = await content(client, batch.output_file_id)
    answer = result["response"]["body"]
    assert (answer["object"], answer["output"][0]["content"][0]["text"]) == ("response", "one two")
    assert batch.usage is not None
    assert (batch.usage.input_tokens, batch.usage.output_tokens) == (2, 2)
    await gateway.events(1)


async def test_an_idempotency_key_gives_the_same_response_again(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    await gateway.sql("UPDATE tenant SET is_idempotent = true WHERE id = $1", tenant.id)
    await gateway.refresh()
    raw = []
    for _ in range(2):
        answer = await gateway.request(
            "POST",
            "/v1/responses",
            {"model": SERVED, "input": "one"},
            tenant.key,
            headers={"idempotency-key": "k"},
        )
        raw.append(await answer.read())
    assert raw[0] == raw[1]
    assert json.loads(raw[0])["object"] == "response"
    await gateway.events(1)
