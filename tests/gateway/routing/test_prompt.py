"""What routing reads of a request."""

from __future__ import annotations

import json
from typing import Any

from gateway.routing.prompt import Prompt
from gateway.wire import CHAT, COMPLETIONS, parse_generation

LONG = "word " * 200


def chat(*messages: Any, salt: str = "salt", **fields: Any) -> Prompt:
    body = {"model": "m", "messages": list(messages), **fields}
    return Prompt(parse_generation(CHAT, json.dumps(body).encode()), salt)


def test_a_conversation_that_went_on_begins_as_before() -> None:
    first = {"role": "user", "content": LONG}
    again = {"content": LONG, "role": "user"}
    later = chat(again, {"role": "assistant", "content": LONG}, temperature=0)
    shared = chat(first).chain
    assert len(shared) > 2
    assert list(later.chain[: len(shared)]) == list(shared)
    assert len(later.chain) > len(shared)


def test_tools_come_first() -> None:
    tools = [{"type": "function", "function": {"name": "f", "description": LONG}}]
    one, other = (chat({"role": "user", "content": text * 90}, tools=tools) for text in ("yes ", "no "))
    assert one.chain[:3] == other.chain[:3]
    assert one.chain != other.chain


def test_a_completions_prompt_is_text_or_ids() -> None:
    for value in (LONG, list(range(900))):
        body = json.dumps({"model": "m", "prompt": value, "stream": True}).encode()
        prompt = Prompt(parse_generation(COMPLETIONS, body), "salt")
        assert len(prompt.chain) > 2
        assert (prompt.num_bytes, prompt.is_streamed) == (len(body), True)


def test_the_key_is_the_users_else_the_beginnings() -> None:
    one, other = {"role": "user", "content": LONG}, {"role": "user", "content": "x" + LONG}
    assert chat(one, user="u").key == chat(other, user="u").key != chat(one, user="v").key
    assert chat(one).key == chat(one, {"role": "user", "content": "more"}).key != chat(other).key
    assert chat(one, user="u").key != chat(one, user="u", salt="another tenant").key
