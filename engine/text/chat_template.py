"""Messages → prompt text through the model's own Jinja template, in a sandbox.

Templates are written for the environment of Hugging Face's tokenizers, so names, filters and whitespace
rules follow it. Whatever a template raises, it fails the one request that made it (`ChatTemplateError`).
Knows neither tokens nor HTTP; the prompt it returns already holds the beginning-of-sequence token.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
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

_PROBE = (
    {"role": "user", "content": "a"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "abcdefghi", "type": "function", "function": {"name": "f", "arguments": {"probe": 1}}}
        ],
    },
)
"""Shows whether a template prints arguments as JSON or expects them to be JSON already."""
_HERE = "\ufdd0"
"""Stands behind a message that is continued: a character of no text, which no template trims."""

RESERVED_KWARGS = frozenset({"messages", "tools", "add_generation_prompt", "raise_exception", "strftime_now"})


class ChatTemplateError(ValueError):
    """The template refuses these messages, or is broken; the message says why."""


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
        self._arguments_as_text = False
        self._arguments_as_text = self.takes_tools and self._needs_text()

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
            turns[-1]["content"] = _marked(turns[-1]["content"])
        variables = {
            **self._special_tokens,
            "tools": list(tools) or None,
            "documents": None,
            **(kwargs or {}),
        }
        try:
            prompt = self._template.render(
                **variables,
                messages=turns,
                add_generation_prompt=add_generation_prompt and not continue_final_message,
            )
        except ChatTemplateError:
            raise
        except (jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError) as error:
            raise ChatTemplateError(f"the chat template cannot render these messages: {error}") from error
        except (ArithmeticError, RecursionError, MemoryError) as error:
            raise ChatTemplateError(f"the chat template fails: {type(error).__name__}") from error
        return _cut_at_mark(prompt) if continue_final_message else prompt

    def _turn(self, message: Message) -> dict[str, Any]:
        if message["role"] == "developer" and not self._knows_developer:
            return {**message, "role": "system"}
        if self._arguments_as_text and message.get("tool_calls"):
            return {**message, "tool_calls": [_with_text(call) for call in message["tool_calls"]]}
        return dict(message)

    def _needs_text(self) -> bool:
        """Only an object that the template itself turns into JSON is as good as its text."""
        try:
            return '"probe"' not in self.render(_PROBE, add_generation_prompt=False)
        except ChatTemplateError as error:
            return "concatenate" in str(error)


def _with_text(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = function["arguments"]
    text = arguments if isinstance(arguments, str) else _to_json(arguments)
    return {**call, "function": {**function, "arguments": text}}


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


def _marked(content: Any) -> str:
    if not isinstance(content, str):
        raise ChatTemplateError("continue_final_message needs a final message with text")
    return content + _HERE


def _cut_at_mark(prompt: str) -> str:
    """Drop what the template wrote behind the last message (its end-of-turn mark)."""
    end = prompt.rfind(_HERE)
    if end < 0:
        raise ChatTemplateError("continue_final_message needs a final message whose text the template keeps")
    return prompt[:end]
