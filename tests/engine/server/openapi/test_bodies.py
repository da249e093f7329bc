"""The schemas of request bodies say what the readers do: neither more nor less, as far as a schema can."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest

from engine.server.errors import ApiError
from engine.server.protocol import parse_chat, parse_completion
from tests.engine.server.bad_values import ROWS, UNSUPPORTED
from tests.engine.server.openapi.described import Described
from tests.engine.server.resume_cases import cases
from tests.engine.server.test_validation import PLAIN, body_of
from tests.fuzz.requests import PATHS, good_body

COMPONENTS = {"chat": "ChatCompletionRequest", "completion": "CompletionRequest"}
RULES = (
    *("this model has", "must not exceed", "exclude each other", "more than 16 tokens", "is empty"),
    *("min_tokens", "needs 'stream'", "not streamed", "needs 'logprobs'", "must not set messages"),
    *("unless", "At most 256 answers", "a value equal to 'n'", "1024 tokens", "two functions"),
    *("there are no 'tools'", "no tool is named", "must not be empty"),
)
"""What a schema cannot know: the vocabulary, other fields, text that is only blanks."""


@pytest.mark.parametrize("endpoint", COMPONENTS)
def test_what_is_refused_is_forbidden(endpoint: str) -> None:
    """But for the rules that need more than the field."""
    described = Described(closed=False)
    allowed = [
        row
        for row in ROWS
        if row.at in (endpoint, "both")
        and not any(rule in row.says for rule in RULES)
        and not described.faults(COMPONENTS[endpoint], body_of(row, endpoint))
    ]
    assert allowed == []


@pytest.mark.parametrize("endpoint", COMPONENTS)
def test_what_is_taken_is_allowed(endpoint: str) -> None:
    described = Described(closed=False)
    path = PATHS[endpoint]
    bodies: list[dict[str, Any]] = [{"model": "m", **body} for _, at, body in cases() if at == path]
    bodies += [good_body(random.Random(number), endpoint) for number in range(200)]
    bodies += [
        PLAIN[endpoint] | dict.fromkeys(described_fields(described, endpoint) - PLAIN[endpoint].keys())
    ]
    taken = 0
    for body in bodies:
        if parses(endpoint, body):
            taken += 1
            assert described.faults(COMPONENTS[endpoint], body) == [], body
    assert taken > len(bodies) * 0.8


def parses(endpoint: str, body: Any) -> bool:
    try:
        (parse_chat if endpoint == "chat" else parse_completion)(orjson.dumps(body))
    except ApiError:
        return False
    return True


def described_fields(described: Described, endpoint: str) -> set[str]:
    schemas = described.document["components"]["schemas"]
    return set(schemas[COMPONENTS[endpoint]]["properties"])


def test_fields_that_are_not_served_have_their_neutral_values() -> None:
    described = Described(closed=False)
    for value, faults in ((["text"], 0), (None, 0), (["audio"], 1), ("text", 1)):
        body = PLAIN["chat"] | {"modalities": value}
        assert len(described.faults("ChatCompletionRequest", body)) == faults
    assert UNSUPPORTED


def test_defaults_and_nulls() -> None:
    schemas = Described(closed=False).document["components"]["schemas"]
    fields = schemas["CompletionRequest"]["properties"]
    assert fields["max_tokens"] == {
        "type": ["integer", "null"],
        "minimum": 0,
        "maximum": 2**31 - 1,
        "default": 16,
    }
    assert fields["model"]["type"] == "string"
    assert fields["stop"]["default"] == []
    assert schemas["CompletionRequest"]["required"] == ["model", "prompt"]
    assert fields["length_penalty"]["enum"] == [None, 1]


def test_bodies_of_structs() -> None:
    described = Described(closed=False)
    assert described.faults("ResumeBody", {"start": {}, "outputs": [], "request": {}})
    assert described.faults("AbortRequest", {"request_id": None})
    assert described.faults("AbortRequest", {"request_id": "a"}) == []
