"""The incremental reader accepts what `json` accepts, and finds where a value ends."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.text.tools.feed import Feed, Malformed
from engine.text.tools.json_text import loads, read_key, read_text, read_value
from tests.engine.text.tools.answers import JSON_VALUES
from tests.engine.text.tools.test_feed import run


def accepted(text: str, *, mend: bool = False) -> str:
    """The value at the beginning of the text. Raises `Malformed`."""
    feed = Feed()
    feed.push(text)
    run(feed, read_value(feed, mend=mend), [])
    return feed.settle()


@settings(max_examples=100, deadline=None)
@given(JSON_VALUES, st.sampled_from([None, 2]))
def test_values_are_read_to_their_end(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=indent is None)
    for rest in ("", " x", "}", ", "):
        if rest and isinstance(value, int | float) and not isinstance(value, bool):
            continue  # numbers end where they cannot go on
        assert accepted(text + rest) == text


@settings(max_examples=200, deadline=None)
@given(st.text('{}[]:,"\\u0a1-+.eEtruefalsn \n', max_size=12))
@example("-")
@example("01")
@example("1.")
@example('"\\x"')
@example('{"a" 1}')
@example("[1,]")
@example('{"a":1,}')
def test_nothing_else_is_accepted(text: str) -> None:
    try:
        whole = json.dumps(json.loads(text)) if text.strip() == text else None
    except ValueError:
        whole = None
    try:
        read = accepted(text)
    except Malformed:
        read = None
    if whole is not None:
        assert read == text
    elif read is not None:
        json.loads(read)
        assert read != text or text.strip() != text


def test_control_characters_are_escaped_where_text_is_passed_on() -> None:
    text = '{"a\tb": ["x\ny", {"c": "\x00"}]}'
    assert json.loads(accepted(text, mend=True)) == {"a\tb": ["x\ny", {"c": "\x00"}]}
    with pytest.raises(Malformed):
        accepted(text)


def test_keys_and_texts_are_decoded() -> None:
    feed = Feed()
    feed.push('"n\\u00e4me" : "\\ud83d\\ude42"')
    assert run(feed, read_key(feed), []) == "näme"
    assert run(feed, read_text(feed), []) == "🙂"


def test_too_deep_for_json_is_malformed() -> None:
    with pytest.raises(Malformed):
        loads("[" * 100_000)
