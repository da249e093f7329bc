"""Which dialect an engine kind speaks."""

from __future__ import annotations

from gateway.upstream.dialect import dialect_of
from gateway.upstream.generic import GenericDialect
from gateway.upstream.native import NativeDialect


def test_an_unknown_kind_speaks_plain_openai() -> None:
    dialects = {"tollway": NativeDialect(), "openai": GenericDialect()}
    assert isinstance(dialect_of("tollway", dialects), NativeDialect)
    assert isinstance(dialect_of("vllm", dialects), GenericDialect)
