"""The table of fields that reach the inside of somebody's engine."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.errors import UnsupportedParameter
from gateway.upstream.generic import DROPPED, GenericDialect
from gateway.upstream.inside import LEFT_OUT, REFUSED
from gateway.upstream.native import NativeDialect
from gateway.wire import CHAT, parse_generation
from tests.gateway.upstream.orders import sent

KNOWN = {
    *("model", "messages", "stream", "stream_options", "temperature", "top_p", "top_k", "min_p", "n", "stop"),
    *("seed", "max_tokens", "max_completion_tokens", "tools", "tool_choice", "response_format", "logprobs"),
    *(
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
        "logit_bias",
        "user",
        "reasoning_effort",
    ),
    *("chat_template_kwargs", "structured_outputs", "guided_json", "grammar", "regex", "ignore_eos"),
}
"""What callers choose such engines for."""


def chat(**fields: Any) -> Any:
    messages = [{"role": "user", "content": "hi"}]
    return parse_generation(CHAT, orjson.dumps({"model": "m", "messages": messages, **fields}))


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_unless_null(name: str) -> None:
    with pytest.raises(UnsupportedParameter) as refused:
        GenericDialect().check(chat(**{name: "x"}))
    assert refused.value.param == name
    GenericDialect().check(chat(**{name: None}))
    assert name not in sent(GenericDialect(), **{name: None})[2]


@pytest.mark.parametrize("name", sorted({*LEFT_OUT, "_private"}))
def test_left_out(name: str) -> None:
    GenericDialect().check(chat(**{name: "x"}))
    assert name not in sent(GenericDialect(), **{name: "x"})[2]


def test_what_engines_are_chosen_for_passes() -> None:
    assert not KNOWN & (REFUSED | LEFT_OUT)
    assert not REFUSED & LEFT_OUT
    assert not DROPPED & (REFUSED | LEFT_OUT), "a bound has rules of its own"


def test_our_own_engine_decides_for_itself() -> None:
    NativeDialect().check(chat(kv_transfer_params={}))
