"""What each route takes and answers, in the terms of the document's components. A route without a row here cannot be
described, which a test finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.server.fields import Schema
from engine.server.internal_routes import LIMIT_DEFAULT, LIMIT_MAX

STREAMED: Mapping[str, str] = {
    "ChatCompletion": "ChatCompletionChunk",
    "Completion": "CompletionChunk",
}
"""Answer → what each event of it holds when it is streamed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    summary: str
    answers: str
    """The component of an answer that went well; "" for plain text."""
    status: int = 200
    body: str | None = None
    """The component of the request body."""
    query: tuple[Schema, ...] = ()
    refuses: tuple[int, ...] = ()
    """Statuses beside those that follow from having a body or needing a key."""
    for_gateway: bool = False
    """Takes the gateway's headers."""
    only_streams: bool = False


def _computed(summary: str, body: str, answers: str) -> Operation:
    """What the core works for, which is asked for by the gateway too."""
    return Operation(summary=summary, body=body, answers=answers, refuses=(404, 503), for_gateway=True)


OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("POST", "/v1/chat/completions"): _computed(
        "Answer a conversation.", "ChatCompletionRequest", "ChatCompletion"
    ),
    ("POST", "/v1/completions"): _computed("Continue a text.", "CompletionRequest", "Completion"),
    ("GET", "/v1/models"): Operation(
        summary="The names that are served.", answers="ModelList", refuses=(503,)
    ),
    ("GET", "/v1/models/*"): Operation(summary="One of these names.", answers="Model", refuses=(404, 503)),
    ("POST", "/v1/embeddings"): _computed("Vectors of texts.", "EmbeddingRequest", "EmbeddingList"),
    ("POST", "/tokenize"): Operation(
        summary="The tokens of a text, or of a conversation.",
        body="TokenizeRequest",
        answers="Tokens",
        refuses=(404, 503),
    ),
    ("POST", "/detokenize"): Operation(
        summary="The text of tokens.", body="DetokenizeRequest", answers="Text", refuses=(404,)
    ),
    ("GET", "/health"): Operation(
        summary="Fails only where a restart would help.", answers="Nothing", refuses=(503,)
    ),
    ("GET", "/ready"): Operation(summary="Whether requests may come.", answers="Nothing", refuses=(503,)),
    ("GET", "/metrics"): Operation(summary="Figures, as Prometheus reads them.", answers=""),
    ("GET", "/version"): Operation(summary="The version of the engine.", answers="Version"),
    ("GET", "/load"): Operation(summary="The load at this moment.", answers="Load"),
    ("GET", "/openapi.json"): Operation(summary="This document.", answers="Document"),
    ("GET", "/internal/status"): Operation(summary="State, load and requests in flight.", answers="Status"),
    ("GET", "/internal/usage"): Operation(
        summary="A page of the usage journal.",
        answers="UsagePage",
        query=(
            {
                "name": "after",
                "description": "The cursor of the page before; empty: from the beginning.",
                "schema": {"type": "string", "default": ""},
            },
            {
                "name": "limit",
                "schema": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": LIMIT_MAX,
                    "default": LIMIT_DEFAULT,
                },
            },
            {
                "name": "request_id",
                "description": "Only the records of this request.",
                "schema": {"type": "string", "minLength": 1},
            },
        ),
    ),
    ("POST", "/internal/abort"): Operation(
        summary="End a request, by the gateway's id.", body="AbortRequest", answers="Aborted"
    ),
    ("POST", "/internal/drain"): Operation(summary="Finish and exit.", answers="Nothing", status=202),
    ("POST", "/internal/resume"): Operation(
        summary="The rest of a stream that another replica began: docs/engine-internal.md.",
        body="ResumeBody",
        answers="ChatCompletion",
        refuses=(404, 409, 503),
        for_gateway=True,
        only_streams=True,
    ),
}

_TERMS: Mapping[str, tuple[str, Schema]] = {
    "x-gateway-request-id": ("The gateway's name for the request.", {"pattern": "^[\\x21-\\x7e]{1,200}$"}),
    "x-gateway-attempt": ("Number of the attempt.", {"pattern": "^[0-9]{1,10}$"}),
    "x-gateway-inference-fairness-id": (
        "Who shares with whom.",
        {"pattern": "^[\\x21-\\x7e]{1,200}$"},
    ),
    "x-fairness-weight": ("Its share, against others'.", {"pattern": "^[0-9]{1,9}(\\.[0-9]{1,6})?$"}),
    "x-request-class": ("Who goes first.", {"enum": ["interactive", "batch"]}),
    "x-slo-ttft-ms": ("Promised time to the first token.", {"pattern": "^[0-9]{1,9}(\\.[0-9]{1,6})?$"}),
    "x-slo-tpot-ms": ("Promised time between tokens.", {"pattern": "^[0-9]{1,9}(\\.[0-9]{1,6})?$"}),
    "x-max-kv-fraction": ("Share of all pages it may hold.", {"pattern": "^[01](\\.[0-9]{1,6})?$"}),
    "x-cache-salt": ("Who shares cached prompts.", {"pattern": "^([0-9a-fA-F]{2}){0,64}$"}),
    "x-max-prompt-tokens": ("Bound of the prompt.", {"pattern": "^[0-9]{1,10}$"}),
    "x-max-output-tokens": ("Bound of the answer.", {"pattern": "^[0-9]{1,10}$"}),
    "x-emit-token-ids": ("Token ids as comment lines of a stream.", {"enum": ["0", "1"]}),
}
HEADERS: Mapping[str, Schema] = {
    "x-request-id": {
        "description": "Echoed; one is drawn for a request without.",
        "schema": {"type": "string"},
    },
    **{
        name: {
            "description": f"{text} Without the internal key: no effect.",
            "schema": {"type": "string", **schema},
        }
        for name, (text, schema) in _TERMS.items()
    },
}
"""Of requests: name → parameter."""
REPLY_HEADERS: dict[str, str] = {
    "x-request-id": "The request's id.",
    "x-tollway-ignored": "Fields of the body that had no effect.",
    "x-engine-epoch": "New at every start of the core process.",
    "x-engine-running": "Sequences that run.",
    "x-engine-waiting": "Sequences that wait.",
    "x-engine-kv-usage": "Share of the pages that running sequences hold.",
    "x-engine-predicted-delay-ms": "Expected wait of a request that came now.",
    "x-engine-predicted-ttft-ms": "Expected time to its first token.",
}
"""Of every reply."""
ANSWER_HEADERS: dict[str, str] = {
    "x-engine-queue-ms": "How long this request waited for a row, in whole milliseconds.",
}
"""Of what requests are answered with that the core computed, beside those of every reply."""
