"""The dialect of any OpenAI server: output bounded in the body, nothing internal told."""

from __future__ import annotations

from gateway.upstream.generic import GenericDialect
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
