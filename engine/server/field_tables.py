"""The validation tables of the generation endpoints: one row per field with its type, range and default.

`protocol` reads bodies by them. Fields that no row names are harmless and ignored, and reported to the caller;
fields that would change the answer and are not served are refused by name. A new field is a row here, an attribute
of a request in `protocol`, and rows in the tables of good and bad values in the tests.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.server import fields, structured
from engine.server.fields import Field, Unsupported, flag, integer, number, obj, text, token_ids
from engine.server.messages import read_messages
from engine.server.tools import read_tool_choice, read_tools

MAX_SEQUENCES = 256
"""Prompts × n of one request."""
_MAX_TEXT = 16 << 20
_LATER = "it is not supported by this server."

COMMON_FIELDS: Mapping[str, Field] = {
    "model": Field(text(256), required=True),
    "temperature": Field(number(0, 2)),
    "top_p": Field(number(0, 1)),
    "top_k": Field(integer(-1, 2**31 - 1)),
    "min_p": Field(number(0, 1)),
    "repetition_penalty": Field(number(0.01, 10)),
    "presence_penalty": Field(number(-2, 2), 0.0),
    "frequency_penalty": Field(number(-2, 2), 0.0),
    "seed": Field(integer(-(2**63))),
    "n": Field(integer(1, 128), 1),
    "stop": Field(fields.stops(16, 512), ()),
    "stop_token_ids": Field(token_ids(128), ()),
    "min_tokens": Field(integer(0, 2**31 - 1), 0),
    "ignore_eos": Field(flag, False),
    "logit_bias": Field(fields.logit_bias(1024), {}),
    "allowed_token_ids": Field(token_ids(1 << 18, min_items=1), ()),
    "stream": Field(flag, False),
    "include_stop_str_in_output": Field(flag, False),
    "skip_special_tokens": Field(flag, True),
    "return_token_ids": Field(flag, False),
    "return_tokens_as_token_ids": Field(flag, False),
    "prompt_logprobs": Field(integer(0, 20)),
    "echo": Field(flag, False),
    "bad_words": Field(fields.words(128, 256), ()),
    "cache_salt": Field(text(1024), ""),
    "priority": Field(integer(-(2**31), 2**31 - 1), 0),
    "response_format": Field(structured.response_format),
    "structured_outputs": Field(structured.structured_outputs),
}

CHAT_FIELDS: Mapping[str, Field] = {
    "messages": Field(read_messages, required=True),
    "max_tokens": Field(integer(1, 2**31 - 1)),
    "max_completion_tokens": Field(integer(1, 2**31 - 1)),
    "logprobs": Field(flag, False),
    "top_logprobs": Field(integer(0, 20)),
    "add_generation_prompt": Field(flag, True),
    "continue_final_message": Field(flag, False),
    "chat_template_kwargs": Field(obj, {}),
    "add_special_tokens": Field(flag, False),
    "reasoning_effort": Field(fields.one_of("none", "minimal", "low", "medium", "high", "xhigh")),
    "tools": Field(read_tools, ()),
    "tool_choice": Field(read_tool_choice),
    "parallel_tool_calls": Field(flag, True),
}

COMPLETION_FIELDS: Mapping[str, Field] = {
    "prompt": Field(fields.prompts(MAX_SEQUENCES, _MAX_TEXT), required=True),
    "best_of": Field(integer(1, 128)),
    "max_tokens": Field(integer(0, 2**31 - 1), 16),
    "logprobs": Field(integer(0, 20)),
    "add_special_tokens": Field(flag, True),
}

_UNSUPPORTED: Mapping[str, Unsupported] = {
    "guided_json": Unsupported("use structured_outputs {'json': …} or response_format."),
    "guided_regex": Unsupported("use structured_outputs {'regex': …}."),
    "guided_choice": Unsupported("use structured_outputs {'choice': […]}."),
    "guided_grammar": Unsupported("use structured_outputs {'grammar': …}."),
    "guided_json_object": Unsupported("use structured_outputs {'json_object': true}.", (False,)),
    "guided_decoding_backend": Unsupported("there is only one, and it needs no name."),
    "guided_whitespace_pattern": Unsupported("white space in JSON is not configurable."),
    "logits_processors": Unsupported(_LATER, ([],)),
    "use_beam_search": Unsupported(_LATER, (False,)),
    "length_penalty": Unsupported("there is no beam search.", (1, 1.0)),
    "truncate_prompt_tokens": Unsupported(_LATER, (-1,)),
}

UNSUPPORTED_IN_CHAT: Mapping[str, Unsupported] = {
    **_UNSUPPORTED,
    "functions": Unsupported("use 'tools'.", ([],)),
    "function_call": Unsupported("use 'tool_choice'.", ("none", "auto")),
    "audio": Unsupported("this is a text model."),
    "modalities": Unsupported("only ['text'] is served.", (["text"],)),
    "web_search_options": Unsupported("there is no web search."),
    "verbosity": Unsupported("only 'medium' is served.", ("medium",)),
    "moderation": Unsupported("this server does not moderate."),
    "chat_template": Unsupported("the operator sets the template."),
    "documents": Unsupported(_LATER, ([],)),
}

UNSUPPORTED_IN_COMPLETIONS: Mapping[str, Unsupported] = {
    **_UNSUPPORTED,
    "suffix": Unsupported("this model does not fill in the middle.", ("",)),
    "prompt_embeds": Unsupported(_LATER),
}
