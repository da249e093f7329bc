"""Templates tell which format their model writes, or that it is none of ours."""

from __future__ import annotations

import re

import pytest

from engine.text.chat_template import GEMMA_TEMPLATE
from engine.text.tools.formats import FORMATS, choose_format
from engine.text.tools.json_calls import MISTRAL_ARGS
from engine.text.tools.parser import CallFormat


@pytest.mark.parametrize(
    ("excerpt", "name"),
    [
        ('{% if tools %}… within <tool_call></tool_call> tags: <tool_call>{"name": …}{% endif %}', "hermes"),
        ("{{ '[AVAILABLE_TOOLS]' + tools | tojson }}{{ '[TOOL_CALLS]' }}", "mistral"),
        (
            '{{ tools }}\'{"name": function name, "parameters": dictionary of argument name and its value}\'',
            "llama3_json",
        ),
        ('{{ tools }}"{\\"name\\": function name, \\"parameters\\": dictionary}"', "llama3_json"),
        ("{{ tools }}'[func_name1(params_name1=params_value1), func_name2(params)]'", "pythonic"),
        ("{% if tools %}<tool_call>\n<function=example>\n<parameter=x>{% endif %}", None),
        ("{% if tools %}{{ tools }}{% endif %}", None),
        ("<tool_call> without anything to call", None),
        (GEMMA_TEMPLATE, None),
    ],
)
def test_format_of_a_template(excerpt: str, name: str | None) -> None:
    found = choose_format("auto", excerpt)
    assert (found and found.name) == name


def test_names_are_the_formats_own() -> None:
    assert all(name == format_.name for name, format_ in FORMATS.items())


def test_a_name_wins_over_the_template() -> None:
    assert choose_format("pythonic", "{{ tools }}<tool_call>") is FORMATS["pythonic"]
    assert choose_format("none", "{{ tools }}<tool_call>") is None


@pytest.mark.parametrize("format_", [*FORMATS.values(), MISTRAL_ARGS], ids=lambda one: one.style)
def test_ids_of_calls_are_what_a_format_takes_back(format_: CallFormat) -> None:
    """Mistral's templates refuse a past call whose id is not nine letters and digits."""
    ids = {format_.call_id(answer, index) for answer in ("chatcmpl-1:0", "chatcmpl-1:1") for index in (0, 1)}
    assert len(ids) == 4
    shape = "[0-9a-f]{9}" if format_.name == "mistral" else "call_[0-9a-f]{24}"
    assert all(re.fullmatch(shape, one) for one in ids)
