"""Templates render as their authors expect, in a sandbox, and fail only the request that made them fail."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from engine.text.chat_template import GEMMA_TEMPLATE, ChatTemplate, ChatTemplateError

USER = {"role": "user", "content": " hi "}
SYSTEM = {"role": "system", "content": "Be brief."}
ASSISTANT = {"role": "assistant", "content": "Well"}


def _template(source: str) -> ChatTemplate:
    return ChatTemplate(source, {"bos_token": "<bos>"}, lambda: datetime(2026, 5, 4, tzinfo=UTC))


def test_gemma_turns() -> None:
    prompt = _template(GEMMA_TEMPLATE).render([SYSTEM, USER, ASSISTANT, USER])
    assert prompt == (
        "<bos><start_of_turn>user\nBe brief.\n\nhi<end_of_turn>\n<start_of_turn>model\nWell<end_of_turn>\n"
        "<start_of_turn>user\nhi<end_of_turn>\n<start_of_turn>model\n"
    )


def test_gemma_without_generation_prompt() -> None:
    prompt = _template(GEMMA_TEMPLATE).render([USER], add_generation_prompt=False)
    assert prompt == "<bos><start_of_turn>user\nhi<end_of_turn>\n"


def test_template_may_refuse_messages() -> None:
    with pytest.raises(ChatTemplateError, match="must alternate"):
        _template(GEMMA_TEMPLATE).render([ASSISTANT])


def test_continue_final_message_ends_with_it() -> None:
    """Exactly, whatever the template trims, and wherever else the text stands; "e" stands in every mark."""
    for content in ("Well", "Well ", "a<end_of_turn>b", "e", "", "hi", "x\ufdd0y"):
        prompt = _template(GEMMA_TEMPLATE).render(
            [USER, {"role": "assistant", "content": content}], continue_final_message=True
        )
        begun = "<bos><start_of_turn>user\nhi<end_of_turn>\n<start_of_turn>model\n"
        assert prompt == begun + content


def test_what_cannot_be_continued_is_refused() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{}]}
    with pytest.raises(ChatTemplateError, match="with text"):
        _template(GEMMA_TEMPLATE).render([USER, call], continue_final_message=True)
    with pytest.raises(ChatTemplateError, match="the template keeps"):
        _template("{{ messages[0].content }}").render([USER, ASSISTANT], continue_final_message=True)


def test_developer_is_system_for_templates_that_do_not_know_it() -> None:
    source = "{% for m in messages %}{{ m.role }}:{{ m['content'] }};{% endfor %}"
    developer = {"role": "developer", "content": "x"}
    assert _template(source).render([developer]) == "system:x;"
    assert _template("{# developer #}" + source).render([developer]) == "developer:x;"


def test_filters_and_functions_templates_rely_on() -> None:
    source = (
        "{% generation %}{{ {'b': '<ü>', 'a': [1]} | tojson }}{% endgeneration %}{{ strftime_now('%d %b %Y') }}"
        "{% for i in range(9) %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}"
    )
    assert _template(source).render([USER]) == '{"b": "<ü>", "a": [1]}04 May 20260'


def test_block_whitespace_is_trimmed() -> None:
    source = "{% for m in messages %}\n    {% if true %}\nx\n    {% endif %}\n{% endfor %}\n"
    assert _template(source).render([USER]) == "x\n"


def test_kwargs_reach_the_template() -> None:
    template = _template("{{ 'T' if enable_thinking else 'F' }}")
    assert template.render([USER], kwargs={"enable_thinking": True}) == "T"
    assert template.render([USER]) == "F"
    with pytest.raises(ChatTemplateError, match="messages"):
        template.render([USER], kwargs={"messages": []})


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages[0].content + 1 }}",
        "{{ messages[7].content }}",
        "{{ 1 // 0 }}",
        "{{ nothing.more.here }}",
        "{% for i in range(1000000000) %}{% endfor %}",
        "{{ raise_exception('no') }}",
    ],
)
def test_hostile_or_broken_templates_fail_one_request(source: str) -> None:
    template = _template(source)
    with pytest.raises(ChatTemplateError):
        template.render([USER])


def test_template_that_does_not_compile() -> None:
    with pytest.raises(ChatTemplateError, match="does not compile"):
        _template("{% if %}")


CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "f", "arguments": {"a": "ü"}}}
CALLING = {"role": "assistant", "content": "", "tool_calls": [CALL]}


def test_tools_reach_the_template() -> None:
    template = _template("{{ tools | tojson if tools else 'none' }}")
    assert template.takes_tools
    assert template.render([USER], tools=[{"type": "function"}]) == '[{"type": "function"}]'
    assert template.render([USER]) == "none"
    assert not _template("{{ messages }}").takes_tools


@pytest.mark.parametrize(
    "printed",
    [
        "{{ call.function.arguments | tojson }}",
        "{{ '' + call.function.arguments }}",
        "{{ '' ~ call.function.arguments }}",
        "{{ call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}",
    ],
)
def test_past_arguments_are_json_however_a_template_prints_them(printed: str) -> None:
    source = (
        "{# tools #}{% for m in messages %}{% for call in m.tool_calls or [] %}"
        + printed
        + "{% endfor %}{% endfor %}"
    )
    assert _template(source).render([USER, CALLING]) == '{"a": "ü"}'


def test_calls_of_templates_that_know_them_by_null_content() -> None:
    source = (
        "{% for m in messages %}{% if m.role == 'assistant' and m.content is none %}{% for call in m.tool_calls %}"
        "{{ call.function.name + ' ' + call.function.arguments }}{% endfor %}{% else %}{{ m.content + '; ' }}"
        "{% endif %}{% endfor %}"
    )
    assert _template(source).render([USER, CALLING]) == ' hi ; f {"a": "ü"}'
    assert _template(source).render([USER, {**CALLING, "content": "Look"}]) == " hi ; Look; "


def test_a_template_that_refuses_the_probe_is_served() -> None:
    source = "{# tools #}{% if messages[0].content == 'a' %}{{ raise_exception('no') }}{% endif %}x"
    assert _template(source).render([USER]) == "x"


def test_which_variables_make_a_difference() -> None:
    assert _template("{{ reasoning_effort }}").knows("reasoning_effort")
    assert not _template("{{ messages }}").knows("reasoning_effort")
