"""The rows of the routes. (What the document makes of them: test_document.)"""

from __future__ import annotations

from engine.server.openapi.operations import OPERATIONS, STREAMED

COMPUTED = {"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/internal/resume"}


def test_what_the_core_works_for_takes_the_gateways_headers_and_may_be_refused() -> None:
    """Nothing else knows them; without a core, or with another model's name, there is nothing to work with."""
    assert {path for (_, path), row in OPERATIONS.items() if row.for_gateway} == COMPUTED
    for path in COMPUTED:
        row = OPERATIONS["POST", path]
        assert {404, 503} <= set(row.refuses)
        assert row.body is not None


def test_only_answers_are_streamed() -> None:
    streamed = {path for (_, path), row in OPERATIONS.items() if row.answers in STREAMED}
    assert streamed == COMPUTED - {"/v1/embeddings"}
