"""Messages → prompt text through the model's own Jinja template, in a sandbox.

Templates are written for the environment of Hugging Face's tokenizers, so names, filters and whitespace
rules follow it. Whatever a template raises, it fails the one request that made it (`ChatTemplateError`).
Knows neither tokens nor HTTP; the prompt it returns already holds the beginning-of-sequence token.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

Message = Mapping[str, Any]

GEMMA_TEMPLATE = """\
{{- bos_token -}}
{%- set turns = messages -%}
{%- set preface = '' -%}
{%- if messages and messages[0].role == 'system' -%}
  {%- set preface = messages[0].content | trim ~ '\n\n' -%}
  {%- set turns = messages[1:] -%}
{%- endif -%}
{%- for turn in turns -%}
  {%- if (turn.role == 'user') != (loop.index0 is even) -%}
    {{- raise_exception('Conversation roles must alternate user/assistant, starting with user.') -}}
  {%- endif -%}
  {{- '<start_of_turn>' ~ ('model' if turn.role == 'assistant' else turn.role) ~ '\n' -}}
  {%- if loop.first -%}{{- preface -}}{%- endif -%}
  {{- (turn.content or '') | trim ~ '<end_of_turn>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<start_of_turn>model\n' -}}{%- endif -%}
"""
"""The turns Gemma was trained on, for checkpoints that carry no template (GGUF conversions)."""

_PROBE: Message = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "abcdefghi", "type": "function", "function": {"name": "f", "arguments": {"probe": 1}}}
    ],
}
"""A call, to find out in which style a template shows it."""
_HERE = "\ufdd0"
"""Stands behind a message that is continued: a character of no text, which no template trims."""

RESERVED_KWARGS = frozenset({"messages", "tools", "add_generation_prompt", "raise_exception", "strftime_now"})


class ChatTemplateError(ValueError):
    """The template refuses these messages, or is broken; the message says why."""


@dataclass(frozen=True, slots=True)
class _CallStyle:
    """What a template expects of an assistant's turn with calls."""

    as_text: bool = False
    """Arguments as JSON, for a template that prints them as they are; else as an object."""
    null_content: bool = False
    """Content that is null tells the turn from others; else it is always a text."""

    def apply(self, message: Message) -> dict[str, Any]:
        calls = (
            [self._call(call) for call in message["tool_calls"]] if self.as_text else message["tool_calls"]
        )
        return {
            **message,
            "content": message["content"] or (None if self.null_content else ""),
            "tool_calls": calls,
        }

    @staticmethod
    def _call(call: Mapping[str, Any]) -> dict[str, Any]:
        function = call["function"]
        arguments = function["arguments"]
        text = arguments if isinstance(arguments, str) else _to_json(arguments)
        return {**call, "function": {**function, "arguments": text}}


_CALL_STYLES = tuple(
    _CallStyle(as_text, null_content) for null_content in (False, True) for as_text in (False, True)
)


class ChatTemplate:
    """A compiled template. `special_tokens` holds `bos_token`, `eos_token` … as the template names them."""

    def __init__(self, source: str, special_tokens: Mapping[str, str], now: Callable[[], datetime]) -> None:
        self.source = source
        self._special_tokens = dict(special_tokens)
        self._knows_developer = "developer" in source
        self.takes_tools = "tools" in source
        try:
            self._template = _environment(now).from_string(source)
        except jinja2.TemplateError as error:
            raise ChatTemplateError(f"the chat template does not compile: {error}") from error
        self._calls = _CallStyle()
        if "tool_calls" in source:
            self._calls = next(filter(self._shows_calls, _CALL_STYLES), self._calls)

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        kwargs: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """The prompt. With `continue_final_message` it ends with the last message's own text, to the last space.
        `tools` are OpenAI's documents of functions."""
        reserved = RESERVED_KWARGS & set(kwargs or {})
        if reserved:
            raise ChatTemplateError(f"chat_template_kwargs must not set {', '.join(sorted(reserved))}")
        turns = [self._turn(message) for message in messages]
        if continue_final_message:
            turns[-1]["content"] = _marked(turns[-1])
        prompt = self._render(
            turns,
            tools=list(tools) or None,
            add_generation_prompt=add_generation_prompt and not continue_final_message,
            **(kwargs or {}),
        )
        return _cut_at_mark(prompt) if continue_final_message else prompt

    def _render(self, turns: list[dict[str, Any]], **variables: Any) -> str:
        variables = {**self._special_tokens, "tools": None, "documents": None, **variables}
        try:
            return self._template.render(**variables, messages=turns)
        except ChatTemplateError:
            raise
        except (jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError) as error:
            raise ChatTemplateError(f"the chat template cannot render these messages: {error}") from error
        except (ArithmeticError, RecursionError, MemoryError) as error:
            raise ChatTemplateError(f"the chat template fails: {type(error).__name__}") from error

    def knows(self, name: str) -> bool:
        """Whether a variable of this name can make a difference."""
        return name in self.source

    def _turn(self, message: Message) -> dict[str, Any]:
        if message["role"] == "developer" and not self._knows_developer:
            return {**message, "role": "system"}
        return self._calls.apply(message) if message.get("tool_calls") else dict(message)

    def _shows_calls(self, style: _CallStyle) -> bool:
        """Whether arguments written in this style come out as JSON."""
        turns = [{"role": "user", "content": "a"}, style.apply(_PROBE)]
        try:
            prompt = self._render(turns, add_generation_prompt=False)
        except ChatTemplateError:
            return False
        return '"probe": 1' in prompt or '"probe":1' in prompt


class _GenerationBlock(Extension):
    """`{% generation %} … {% endgeneration %}` marks training targets; here it is only its content."""

    tags = {"generation"}  # noqa: RUF012  # Jinja reads this attribute of the class

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment(now: Callable[[], datetime]) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda pattern: now().strftime(pattern)
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON: Jinja's own filter escapes for HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise(message: str) -> None:
    raise ChatTemplateError(message)


def _marked(turn: Message) -> str:
    content = turn["content"]
    if not isinstance(content, str) or (turn.get("tool_calls") and not content):
        raise ChatTemplateError("continue_final_message needs a final message with text")
    return content + _HERE


def _cut_at_mark(prompt: str) -> str:
    """Drop what the template wrote behind the last message (its end-of-turn mark)."""
    end = prompt.rfind(_HERE)
    if end < 0:
        raise ChatTemplateError("continue_final_message needs a final message whose text the template keeps")
    return prompt[:end]
