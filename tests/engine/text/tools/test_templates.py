"""What a family's template writes for a past call, its parser reads as that call.

The templates are short ones in the manner of each family; `real_templates` does the same with published ones.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from engine.text.chat_template import ChatTemplate
from engine.text.tools.formats import choose_format
from tests.engine.text.tools.answers import parse_whole

QWEN = """\
{%- if tools %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{{ 'within <tool_call></tool_call>' }}{% endif %}
{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}{% for call in m.tool_calls or [] %}
{%- set call = call.function %}{{ '\n<tool_call>\n{"name": "' + call.name + '", "arguments": ' }}
{%- if call.arguments is string %}{{ call.arguments }}{% else %}{{ call.arguments | tojson }}{% endif %}
{{- '}\n</tool_call>' }}{% endfor %}{% endfor %}"""
LLAMA = """\
{%- if tools %}{{ 'as {"name": function name, "parameters": dictionary of argument name and its value}' }}{% endif %}
{%- for m in messages %}{% if m.tool_calls %}{% set call = m.tool_calls[0].function %}
{{- '<|header|>{"name": "' + call.name + '", "parameters": ' }}{{ call.arguments | tojson }}{{ "}" }}
{%- else %}{{ '<|header|>' + m.content }}{% endif %}{% endfor %}"""
MISTRAL = """\
{%- if tools %}{{ '[AVAILABLE_TOOLS] ' + (tools | tojson) }}{% endif %}{% for m in messages %}
{%- if m.tool_calls is defined %}{{ '[TOOL_CALLS] [' }}{% for call in m.tool_calls %}
{%- set out = call.function | tojson %}{{ out[:-1] }}{% if call.id | length != 9 %}{{ raise_exception('id') }}{% endif %}
{{- ', "id": "' + call.id + '"}' }}{% if not loop.last %}{{ ', ' }}{% endif %}{% endfor %}{{ ']' }}
{%- else %}{{ '[INST] ' + m.content }}{% endif %}{% endfor %}"""
MISTRAL_ARGS = """\
{%- if tools %}{{ '[AVAILABLE_TOOLS]' + (tools | tojson) }}{% endif %}{% for m in messages %}{{ m.content }}
{%- for call in m.tool_calls or [] %}{% set arguments = call.function.arguments %}
{%- if arguments is not string %}{% set arguments = arguments | tojson %}{% endif %}
{{- '[TOOL_CALLS]' + call.function.name + '[ARGS]' + arguments }}{% endfor %}{% endfor %}"""
TEMPLATES = {"hermes": QWEN, "llama3_json": LLAMA, "mistral": MISTRAL, "mistral_args": MISTRAL_ARGS}
ARGUMENTS: dict[str, Any] = {"city": 'Kiel "ü" </tool_call>', "days": [1, {"x": None}]}


@pytest.mark.parametrize("style", TEMPLATES)
def test_what_a_template_writes_its_parser_reads(style: str) -> None:
    source = TEMPLATES[style]
    format_ = choose_format("auto", source)
    assert format_ is not None
    assert format_.style == style
    call_id = format_.call_id("chatcmpl-1:0", 0)
    call = {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": ARGUMENTS}}
    user = {"role": "user", "content": "How is the sea?"}
    template = ChatTemplate(source, {}, lambda: datetime.now(UTC))
    before = template.render([user], tools=[call], add_generation_prompt=False)
    after = template.render(
        [user, {"role": "assistant", "content": "", "tool_calls": [call]}],
        tools=[call],
        add_generation_prompt=False,
    )
    written = after.removeprefix(before).removeprefix("<|im_start|>assistant").removeprefix("<|header|>")
    answer = parse_whole(format_, written)
    assert (answer.parsed, answer.content) == ([("get_weather", ARGUMENTS)], "")
