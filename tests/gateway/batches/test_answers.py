"""Lines of the result files."""

from __future__ import annotations

import json

import pytest

from gateway.batches.answers import answered, expired, refused
from gateway.errors import ModelNotFound
from gateway.wire import Usage

CHAT = {"prompt_tokens": 5, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
RESPONSE = {"input_tokens": 5, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 2}}


@pytest.mark.parametrize("usage", [CHAT, RESPONSE])
def test_an_answer_is_one_line_with_its_usage(usage: object) -> None:
    body = {"choices": ["a\nb"], "usage": usage}
    result = answered("batch_1", 7, "id \u2028", "req_1", json.dumps(body, indent=1).encode())
    assert "\n" not in result.content
    line = json.loads(result.content)
    assert line.pop("id").startswith("batch_req_")
    assert line == {
        "custom_id": "id \u2028",
        "response": {"status_code": 200, "request_id": "req_1", "body": body},
        "error": None,
    }
    assert (result.line, result.is_error, result.usage) == (7, False, Usage(5, 3, cached_tokens=2))


def test_an_answer_without_usage_has_none() -> None:
    assert answered("b", 1, "a", "req_1", b"{}").usage is None


def test_a_refusal_is_what_the_caller_would_have_read() -> None:
    result = refused("batch_1", 7, "a", "req_1", ModelNotFound("m"))
    line = json.loads(result.content)
    assert (result.is_error, line["error"], line["response"]["status_code"]) == (True, None, 404)
    assert line["response"]["body"]["error"]["code"] == "model_not_found"


def test_what_was_not_begun_has_no_response() -> None:
    line = json.loads(expired("batch_1", 7, "a").content)
    assert (line["response"], line["error"]["code"]) == (None, "batch_expired")
