"""Schemas of answers: the shapes that `responses`, `completion_shape` and the routes write.

Written by hand beside them; a test holds real answers of every route against these, with no key left over. Knows no
routes.
"""

from __future__ import annotations

from typing import Any

from engine.server.fields import Schema
from engine.server.journal import Record
from engine.server.openapi.bodies import of_struct

_STRING: Schema = {"type": "string"}
_STRING_OR_NULL: Schema = {"type": ["string", "null"]}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NUMBER: Schema = {"type": "number"}
_AMOUNT: Schema = {"type": "number", "minimum": 0}
_FLAG: Schema = {"type": "boolean"}
_NULL: Schema = {"type": "null"}
_STOP_REASON: Schema = {
    "type": ["string", "integer", "null"],
    "description": "The stop string or the caller's stop token that ended the answer.",
}


def answers() -> dict[str, Schema]:
    """Name of the component → schema."""
    return {
        **_errors(),
        **_chat(),
        **_completions(),
        **_embeddings(),
        **_models(),
        **_text(),
        **_operations(),
        **_internal(),
    }


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _record(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    properties = {**required, **(optional or {})}
    return {"type": "object", "required": list(required), "properties": properties}


def _list(item: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": item, **more}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, _NULL]}


def _only(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


_TOKENS = _list(_COUNT)


def _errors() -> dict[str, Schema]:
    error = _record({"message": _STRING, "type": _STRING, "param": _STRING_OR_NULL, "code": _STRING_OR_NULL})
    usage = {**ref("Usage"), "description": "What was reported before it failed; for the internal key alone."}
    return {
        "Error": _record({"error": error}, {"usage": usage}),
        "Usage": _record(
            {
                "prompt_tokens": _COUNT,
                "completion_tokens": _COUNT,
                "total_tokens": _COUNT,
                "prompt_tokens_details": _record({"cached_tokens": _COUNT}),
            },
            {"completion_tokens_details": _record({"reasoning_tokens": _COUNT})},
        ),
        "PromptLogprobs": _list(
            _or_null(
                {
                    "type": "object",
                    "propertyNames": {"pattern": "^[0-9]+$"},
                    "additionalProperties": _record(
                        {"logprob": _NUMBER, "rank": _COUNT, "decoded_token": _STRING}
                    ),
                }
            )
        ),
    }


def _chat() -> dict[str, Schema]:
    entry = {"token": _STRING, "logprob": _NUMBER, "bytes": _TOKENS}
    function = _record({"name": _STRING, "arguments": _STRING})
    call = _record({"id": _STRING, "type": _only("function"), "function": function})
    begun = _record(
        {"index": _COUNT, "function": _record({"arguments": _STRING}, {"name": _STRING})},
        {"id": _STRING, "type": _only("function")},
    )
    reasoning = {"reasoning": _STRING, "reasoning_content": _STRING}
    message = _record(
        {"role": _only("assistant"), "content": _STRING_OR_NULL, "refusal": _NULL},
        {**reasoning, "tool_calls": _list(call, minItems=1)},
    )
    delta = _record(
        {}, {"role": _only("assistant"), "content": _STRING, **reasoning, "tool_calls": _list(begun)}
    )
    reason = _only("stop", "length", "tool_calls", "abort")
    logprobs = _or_null(ref("ChatLogprobs"))
    choice = {"index": _COUNT, "logprobs": logprobs}
    head = {"id": _STRING, "created": _COUNT, "model": _STRING}
    whole = {**choice, "message": message, "finish_reason": reason, "stop_reason": _STOP_REASON}
    part = {**choice, "delta": delta, "finish_reason": _or_null(reason)}
    return {
        "ChatLogprobs": _record(
            {
                "content": _list(_record({**entry, "top_logprobs": _list(_record(entry))})),
                "refusal": _NULL,
            }
        ),
        "ChatCompletion": _record(
            {
                **head,
                "object": _only("chat.completion"),
                "choices": _list(_record(whole, {"token_ids": _TOKENS})),
                "usage": ref("Usage"),
            },
            {"prompt_token_ids": _TOKENS, "prompt_logprobs": ref("PromptLogprobs")},
        ),
        "ChatCompletionChunk": _record(
            {
                **head,
                "object": _only("chat.completion.chunk"),
                "choices": _list(_record(part, {"stop_reason": _STOP_REASON, "token_ids": _TOKENS})),
            },
            {"usage": ref("Usage"), "prompt_token_ids": _TOKENS},
        ),
    }


def _completions() -> dict[str, Schema]:
    reason = _only("stop", "length", "abort")
    head = {"id": _STRING, "object": _only("text_completion"), "created": _COUNT, "model": _STRING}
    choice = {"index": _COUNT, "text": _STRING, "logprobs": _or_null(ref("CompletionLogprobs"))}
    ids = {"prompt_token_ids": _TOKENS, "token_ids": _TOKENS}
    whole = _record(
        {**choice, "finish_reason": reason, "stop_reason": _STOP_REASON},
        {**ids, "prompt_logprobs": ref("PromptLogprobs")},
    )
    part = _record({**choice, "finish_reason": _or_null(reason)}, {**ids, "stop_reason": _STOP_REASON})
    return {
        "CompletionLogprobs": _record(
            {
                "tokens": _list(_STRING),
                "token_logprobs": _list(_or_null(_NUMBER)),
                "top_logprobs": _list(_or_null({"type": "object", "additionalProperties": _NUMBER})),
                "text_offset": _list(_COUNT),
            }
        ),
        "Completion": _record({**head, "choices": _list(whole), "usage": ref("Usage")}),
        "CompletionChunk": _record({**head, "choices": _list(part)}, {"usage": ref("Usage")}),
    }


def _embeddings() -> dict[str, Schema]:
    vector: Schema = {
        "anyOf": [_list(_NUMBER), _STRING, _NULL],
        "description": "Numbers, or little-endian fp32 in base64; null where the request was aborted.",
    }
    usage = {
        "prompt_tokens": _COUNT,
        "total_tokens": _COUNT,
        "prompt_tokens_details": _record({"cached_tokens": _COUNT}),
    }
    item = {"object": _only("embedding"), "index": _COUNT, "embedding": vector}
    return {
        "EmbeddingList": _record(
            {
                "object": _only("list"),
                "data": _list(_record(item)),
                "model": _STRING,
                "usage": _record(usage),
            }
        )
    }


def _models() -> dict[str, Schema]:
    return {
        "Model": _record(
            {
                "id": _STRING,
                "object": _only("model"),
                "created": _COUNT,
                "owned_by": _STRING,
                "max_model_len": {"type": ["integer", "null"]},
            }
        ),
        "ModelList": _record({"object": _only("list"), "data": _list(ref("Model"), minItems=1)}),
    }


def _text() -> dict[str, Schema]:
    return {
        "Tokens": _record(
            {
                "count": _COUNT,
                "max_model_len": _COUNT,
                "tokens": _TOKENS,
                "token_strs": _or_null(_list(_STRING)),
            }
        ),
        "Text": _record({"prompt": _STRING}),
    }


def _operations() -> dict[str, Schema]:
    batch = _record({"rows": _COUNT, "tokens": _COUNT, "prompt_tokens": _COUNT})
    counts = ("server_load", "running", "waiting", "waiting_tokens", "refused")
    amounts = ("kv_usage", "predicted_queue_delay_s", "predicted_ttft_s", "sustainable_rps", "step_s")
    return {
        "Nothing": {"type": "object", "maxProperties": 0},
        "Version": _record({"version": _STRING}),
        "Load": _record({**dict.fromkeys(counts, _COUNT), **dict.fromkeys(amounts, _AMOUNT), "batch": batch}),
    }


def _internal() -> dict[str, Schema]:
    return {
        "Status": _record(
            {
                "epoch": _STRING_OR_NULL,
                "state": _only("starting", "ready", "draining"),
                "model": _STRING,
                "served_model_names": _list(_STRING, minItems=1),
                "max_model_len": {"type": ["integer", "null"]},
                "pid": _COUNT,
                "core_pid": {"type": ["integer", "null"]},
                "running": _COUNT,
                "waiting": _COUNT,
                "kv_usage": _AMOUNT,
                "request_ids": _list(_STRING),
            }
        ),
        "Record": of_struct(Record),
        "UsagePage": _record({"records": _list(ref("Record")), "cursor": _STRING, "complete": _FLAG}),
        "Aborted": _record({"aborted": _FLAG}),
    }
