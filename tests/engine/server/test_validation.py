"""The validation table through HTTP, row by row, and that no field of the protocol is without a row."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any, get_type_hints

import orjson
import pytest
from openai.types import completion_create_params
from openai.types.chat import completion_create_params as chat_create_params

from engine.server import field_tables as tables
from engine.server import json_body
from engine.server.exchange import MAX_BODY_BYTES
from engine.server.protocol import ChatRequest, CompletionRequest, parse_chat, parse_completion
from tests.engine.server.bad_values import ROWS, UNSUPPORTED, Row
from tests.engine.server.conftest import API_KEY, MODEL, Server
from tests.fakes.core import Script

PATHS = {"chat": "/v1/chat/completions", "completion": "/v1/completions"}
PLAIN: dict[str, dict[str, Any]] = {
    "chat": {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]},
    "completion": {"model": MODEL, "prompt": "hi"},
}
FIELDS = {
    "chat": {**tables.COMMON_FIELDS, **tables.CHAT_FIELDS},
    "completion": {**tables.COMMON_FIELDS, **tables.COMPLETION_FIELDS},
}
REFUSED = {"chat": tables.UNSUPPORTED_IN_CHAT, "completion": tables.UNSUPPORTED_IN_COMPLETIONS}
NO_EFFECT = {
    *(
        "metadata",
        "prediction",
        "prompt_cache_key",
        "prompt_cache_options",
    ),
    *(
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    ),
}
"""OpenAI's fields that do not change an answer here: ignored, and named in x-tollway-ignored."""
LOOKED_AT = {"stream_options"}
"""Read by more than a row."""


def rows_at(endpoint: str) -> list[Row]:
    return [row for row in ROWS if row.at in ("both", endpoint)]


def body_of(row: Row, endpoint: str) -> dict[str, Any]:
    return PLAIN[endpoint] | row.beside | {row.field: row.value}


@pytest.mark.parametrize("endpoint", PATHS)
def test_no_field_is_without_a_row(endpoint: str) -> None:
    """Two kinds of wrong at least, for fields that are not just on or off."""
    counts = Counter(row.field for row in rows_at(endpoint))
    missing = sorted({*FIELDS[endpoint], "stream_options"} - counts.keys())
    assert not missing, f"bad_values has no row of {missing}"
    assert [name for name, count in counts.items() if count < 2] == []


@pytest.mark.parametrize("endpoint", PATHS)
async def test_every_row_is_refused_as_it_says(server: Server, endpoint: str) -> None:
    """In OpenAI's shape with all four keys, and nothing reaches the core."""
    wrong = []
    async with server.session(API_KEY) as session:
        for row in rows_at(endpoint):
            async with session.post(PATHS[endpoint], json=body_of(row, endpoint)) as answer:
                document = orjson.loads(await answer.read())
                error = document.get("error", {})
                found = (answer.status, error.get("type"), error.get("code"), error.get("param"))
                wanted = (400, "invalid_request_error", row.code, row.param or row.field)
                if found != wanted or row.says not in error["message"] or len(error) != 4:
                    wrong.append((row.field, str(row.value)[:60], found, error.get("message")))
    assert wrong == []
    assert server.core.seen == []


@pytest.mark.parametrize("endpoint", PATHS)
async def test_refused_fields_are_named(server: Server, endpoint: str) -> None:
    """Known fields that would change the answer; their neutral values say nothing."""
    async with server.session(API_KEY) as session:
        for name, field in REFUSED[endpoint].items():
            async with session.post(PATHS[endpoint], json=PLAIN[endpoint] | {name: "x"}) as answer:
                error = (await answer.json())["error"]
                assert (answer.status, error["code"], error["param"]) == (400, UNSUPPORTED, name)
                assert name in error["message"]
            for neutral in (None, *field.neutral):
                body = PLAIN[endpoint] | {name: neutral, "max_tokens": 1}
                async with session.post(PATHS[endpoint], json=body) as answer:
                    assert (answer.status, answer.headers["x-tollway-ignored"]) == (200, ""), (name, neutral)


@pytest.mark.parametrize("endpoint", PATHS)
def test_null_is_the_same_as_absent(endpoint: str) -> None:
    parse = parse_chat if endpoint == "chat" else parse_completion
    plain = parse(orjson.dumps(PLAIN[endpoint]))
    for name in {*FIELDS[endpoint], *REFUSED[endpoint], *NO_EFFECT, *LOOKED_AT} - PLAIN[endpoint].keys():
        assert parse(orjson.dumps(PLAIN[endpoint] | {name: None})) == plain, name
    everything = dict.fromkeys({*FIELDS[endpoint], *REFUSED[endpoint], *NO_EFFECT, *LOOKED_AT})
    assert parse(orjson.dumps(everything | PLAIN[endpoint])) == plain


@pytest.mark.parametrize(
    ("endpoint", "params"),
    [
        ("chat", chat_create_params.CompletionCreateParamsBase),
        ("completion", completion_create_params.CompletionCreateParamsBase),
    ],
)
async def test_every_field_of_openai_is_read_or_refused_or_named(
    server: Server, endpoint: str, params: Any
) -> None:
    """So that a field which is new in the package is decided upon."""
    names = {*get_type_hints(params), "stream"}
    served = {*FIELDS[endpoint], *REFUSED[endpoint], *LOOKED_AT}
    assert names - served <= NO_EFFECT, "new in the package: serve, refuse or ignore it"
    server.core.script(Script((5,)))
    ignored = sorted(NO_EFFECT - served)
    async with (
        server.session(API_KEY) as session,
        session.post(PATHS[endpoint], json=PLAIN[endpoint] | dict.fromkeys(ignored, "x")) as answer,
    ):
        assert answer.status == 200
        assert sorted(answer.headers["x-tollway-ignored"].split(", ")) == ignored


async def test_what_is_unknown_is_named_and_safe_in_a_header(server: Server) -> None:
    fields = {"surprise": 1, "line\r\nbreak": 1, "ümlaut": 1, "gone": None, "x" * 99: 1}
    body = PLAIN["chat"] | fields | {"max_tokens": 1}
    async with server.session(API_KEY) as session:
        async with session.post(PATHS["chat"], json=body) as answer:
            assert answer.status == 200
            assert answer.headers["x-tollway-ignored"] == f"surprise, {'x' * 64}"
        many = PLAIN["chat"] | {f"f{index}": 1 for index in range(99)} | {"max_tokens": 1}
        async with session.post(PATHS["chat"], json=many) as answer:
            assert answer.headers["x-tollway-ignored"].count(",") == 31


@pytest.mark.parametrize("endpoint", PATHS)
def test_every_field_has_a_home_in_the_request(endpoint: str) -> None:
    """A row without an attribute would be read and forgotten."""
    request = ChatRequest if endpoint == "chat" else CompletionRequest
    elsewhere = {
        *("logprobs", "top_logprobs", "max_completion_tokens", "best_of", "prompt", "prompt_logprobs"),
        *("response_format", "structured_outputs", "tool_choice", "parallel_tool_calls"),
    }
    assert FIELDS[endpoint].keys() - elsewhere <= get_type_hints(request).keys()


async def test_bounds_of_a_body(server: Server) -> None:
    """Bytes, depth, number of values: refused before anything else looks at them."""
    deep = b'{"model": "tiny", "prompt": "a", "x": ' + b'[{"a":' * 64 + b"1" + b"}]" * 64 + b"}"
    values = b'{"model": "tiny", "prompt": "a", "x": [' + b"0," * json_body.MAX_VALUES + b"0]}"
    boxes = b'{"model": "tiny", "prompt": "a", "x": [' + b"[]," * json_body.MAX_BOXES + b"0]}"
    hopeless = b'{"a":' + b"[" * 100_000
    for raw, status, says in (
        (b"x" * (MAX_BODY_BYTES + 1), 413, "larger than"),
        (deep, 400, "nested deeper than 128"),
        (values, 400, "more than 1048576 values"),
        (boxes, 400, "more than 262144 arrays and objects"),
        (hopeless, 400, "not valid JSON"),
    ):
        async with (
            server.session(API_KEY) as session,
            session.post("/v1/completions", data=io.BytesIO(raw)) as answer,
        ):
            error = (await answer.json())["error"]
            assert (answer.status, error["param"]) == (status, None)
            assert says in error["message"]
    assert server.core.seen == []
