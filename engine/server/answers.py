"""What a chat request, its prompt and the model together say of its answers: how to read them, what they must be.

Place in the path: after the prompt is made, before `admission` makes sequences of it. A call that must be made, and
functions with strict schemas, become part of the grammar; so does the reasoning in front of any grammar. A function of
the request and its prompt alone, so that a resumed answer is read as it began. Knows no tokens but the prompt's last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.messages import GrammarSpec
from engine.server.errors import ApiError, invalid, unsupported
from engine.server.protocol import ChatRequest
from engine.server.services import Services
from engine.server.tools import ToolUse
from engine.text.answer import AnswerFormat
from engine.text.reasoning import CLOSE, OPEN, Start, start_of
from engine.text.tokenizer import Tokenizer
from engine.text.tools.forced import Forced, FunctionSchemaError, forced_calls

_TAIL = 16
"""Tokens of a prompt in which an opening tag and the blanks behind it have room."""


def check_tools(services: Services, use: ToolUse | None) -> None:
    """Raises `ApiError` for tools that this model, or this server, cannot call."""
    if use is None:
        return
    template = services.text.chat_template
    if template is not None and not template.takes_tools:
        raise unsupported("tools", "the chat template of this model has no place for tools.")
    if services.text.call_format is None:
        why = "how this model calls tools is not known; the operator says so with --tool-call-parser."
        raise unsupported("tools", why)
    if use.mode == "auto" and not services.auto_tool_choice:
        why = "calls must be asked for ('required' or a function); 'auto' is off (--enable-auto-tool-choice)."
        raise unsupported("tool_choice", why)


def answer_format(services: Services, request: ChatRequest, prompt: Sequence[int]) -> AnswerFormat | None:
    """None: all text is content."""
    text, use = services.text, request.tools
    reasoning = None
    if text.reasoning_parser is not None:
        reasoning = _start(text.reasoning_parser, request, prompt, text.tokenizer)
    if use is None:
        return None if reasoning is None else AnswerFormat(reasoning=reasoning)
    return AnswerFormat(
        reasoning=reasoning,
        calls=text.call_format,
        functions=frozenset(function.name for function in use.allowed),
        max_calls=None if use.parallel else 1,
        finish_reason="stop" if use.mode == "named" else "tool_calls",
    )


def with_grammar(request: ChatRequest, format_: AnswerFormat | None) -> ChatRequest:
    """The request with the grammar that its tools and its `response_format` together make, if they make one. Raises
    `ApiError` for schemas that are not served and would have to be followed."""
    if format_ is None:
        return request
    forced = None
    if request.tools is not None and format_.calls is not None:
        use = request.tools
        forced = Forced(
            schemas={
                one.name: one.parameters if one.strict or use.mode != "auto" else None for one in use.allowed
            },
            is_must=use.mode != "auto",
            parallel=use.parallel,
            is_strict=len(use.allowed) < len(use.functions) or any(one.strict for one in use.allowed),
        )
    content = None if request.grammar is None else (request.grammar.kind, request.grammar.text)
    try:
        tag = forced_calls(format_, forced, content)
    except FunctionSchemaError as error:
        raise _refused(request, error) from error
    if tag is None:
        return request
    param = "tools" if request.grammar is None else request.grammar.param
    return replace(request, grammar=GrammarSpec("structural_tag", tag, param))


def _refused(request: ChatRequest, error: FunctionSchemaError) -> ApiError:
    assert request.tools is not None, "who has no tools has no schemas"
    names = [function.name for function in request.tools.functions]
    place = f"tools[{names.index(error.function)}].function.parameters"
    place = ".".join([place, *(part[:64] for part in error.path)])
    return invalid(f"Invalid schema in '{place}': {error}.", place)


def _start(parser: str, request: ChatRequest, prompt: Sequence[int], tokenizer: Tokenizer) -> Start:
    begun = request.messages[-1].content if request.continue_final_message else None
    if begun:
        return Start.REASONING if begun.rfind(OPEN) > begun.rfind(CLOSE) else Start.CONTENT
    end = b"".join(map(tokenizer.token_bytes, prompt[-_TAIL:])).decode("utf-8", "replace")
    return start_of(parser, end)
