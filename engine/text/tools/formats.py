"""The formats of tool calls by name, and which of them a chat template speaks.

Names are those of `vllm serve --tool-call-parser`. Knows no parsing.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.text.tools.json_calls import HERMES, LLAMA3_JSON, MISTRAL, MISTRAL_ARGS
from engine.text.tools.parser import CallFormat
from engine.text.tools.pythonic import PYTHONIC

FORMATS: Mapping[str, CallFormat] = {
    format_.name: format_ for format_ in (HERMES, LLAMA3_JSON, MISTRAL, PYTHONIC)
}

_UNREAD = ("<function=", "<arg_key>", "<|tool_calls_section_begin|>", "<｜tool▁calls▁begin｜>", "<|channel|>")
"""Marks of formats that no parser here reads, some of which look like another at first."""
_SPOKEN = (
    ("<tool_call>", HERMES),
    ("[TOOL_CALLS]", MISTRAL),
    ("func_name1(", PYTHONIC),
    ("<|python_start|>", PYTHONIC),
    ('"parameters": dictionary', LLAMA3_JSON),
    ('\\"parameters\\": dictionary', LLAMA3_JSON),
    ("<|python_tag|>", LLAMA3_JSON),
)
"""What a template that shows tools to its model says of how to call them; the first that is there counts."""


def choose_format(name: str, template: str) -> CallFormat | None:
    """The format of this name; of "auto", the one that a model with this chat template was trained to write, or None
    if that is not known."""
    found = FORMATS.get(name) if name != "auto" else _spoken_by(template)
    return MISTRAL_ARGS if found is MISTRAL and "[ARGS]" in template else found


def _spoken_by(template: str) -> CallFormat | None:
    if "tools" not in template or any(mark in template for mark in _UNREAD):
        return None
    return next((format_ for mark, format_ in _SPOKEN if mark in template), None)
