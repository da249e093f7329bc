"""A chat template with tools, calls and reasoning, for the tiny models."""

from __future__ import annotations

TEMPLATE = """\
{%- if tools %}{{ 'Tools, called as <tool_call>{"name": …, "arguments": …}</tool_call>:' }}
{%- for tool in tools %}{{ '\n' ~ (tool | tojson) }}{% endfor %}{% endif %}
{%- for message in messages %}
  {{- '\n' ~ message.role ~ ': ' }}
  {%- if message.reasoning_content %}{{ '<think>' ~ message.reasoning_content ~ '</think>' }}{% endif %}
  {{- message.content }}
  {%- for call in message.tool_calls or [] %}
    {{- '<tool_call>{"name": "' ~ call.function.name ~ '", "arguments": ' ~ (call.function.arguments | tojson) ~ '}' }}
    {{- '</tool_call>' }}
  {%- endfor %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '\nassistant: ' ~ ('<think>\n' if think else '') }}{% endif %}
"""
