"""The dialect of any OpenAI server: output bounded in the body, nothing internal told."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.upstream.generic import GenericDialect
from gateway.wire.request import COMPLETIONS, EMBEDDINGS
from tests.gateway.upstream.orders import sent


def test_generic_bounds_the_output_in_the_body_and_tells_nothing_internal() -> None:
    _, headers, body = sent(GenericDialect())
    assert body["max_tokens"] == 20
    assert "cache_salt" not in body
    assert set(headers) == {"content-type", "authorization", "x-request-id"}
    assert "max_tokens" not in sent(GenericDialect(), max_completion_tokens=20)[2]
    assert sent(GenericDialect(), max_completion_tokens=99)[2]["max_completion_tokens"] == 20


def test_other_stream_options_are_kept() -> None:
    options = {"include_usage": False, "continuous_usage_stats": True}
    body = sent(GenericDialect(), stream=True, stream_options=options)[2]
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


BOUNDS = {"max_tokens", "max_completion_tokens", "max_new_tokens", "n_predict", "num_predict", "min_tokens"}
BOUNDS |= {"best_of", "n_cmpl", "min_new_tokens"}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"max_tokens": 1, "n_predict": 5000}, {"max_tokens": 20}),
        ({"max_completion_tokens": 20, "max_tokens": 9000}, {"max_completion_tokens": 20}),
        ({"max_new_tokens": 9000, "num_predict": 9000}, {"max_tokens": 20}),
        ({"best_of": 9, "n_cmpl": 9, "min_new_tokens": 9}, {"max_tokens": 20}),
        ({"min_tokens": 5000}, {"max_tokens": 20, "min_tokens": 20}),
        ({"min_tokens": 3}, {"max_tokens": 20, "min_tokens": 3}),
        ({"min_tokens": "5000"}, {"max_tokens": 20}),
    ],
)
def test_one_bound_of_the_output_and_no_other_name_of_it(asked: dict[str, Any], told: dict[str, Any]) -> None:
    body = sent(GenericDialect(), **asked)[2]
    assert {name: value for name, value in body.items() if name in BOUNDS} == told
    assert body["new"] == 1


def test_a_completion_has_one_name_for_it() -> None:
    """And no messages, which a server may take for its prompt."""
    body = sent(
        GenericDialect(), COMPLETIONS, prompt="a", max_tokens=5, max_completion_tokens=900, best_of=1
    )[2]
    assert {name: value for name, value in body.items() if name in BOUNDS} == {"max_tokens": 20}
    assert "messages" not in body


def test_vectors_have_no_bound_and_no_messages() -> None:
    body = sent(GenericDialect(), EMBEDDINGS, input="a", max_tokens=5)[2]
    assert not BOUNDS & set(body)
    assert "messages" not in body


def test_the_tenants_salt_where_the_server_takes_one() -> None:
    assert sent(GenericDialect(takes_salt=True), cache_salt="another's")[2]["cache_salt"] == "ab"
