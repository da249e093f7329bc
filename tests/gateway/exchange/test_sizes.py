"""Upper bounds and estimates of a request's size."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.errors import ContextLengthExceeded, InvalidValue
from gateway.exchange.sizes import Sizes, sizes_of
from gateway.ids import KeyId, TenantId
from gateway.limits import TokenEstimator
from gateway.tenancy.principal import LimitSet, Principal, ScopedLimits
from gateway.wire import CHAT, COMPLETIONS, parse_generation
from tests.gateway.exchange.test_ending import exchange


def sizes(
    limits: LimitSet | None = None,
    *,
    is_told: bool = True,
    estimator: TokenEstimator | None = None,
    **fields: Any,
) -> Sizes:
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 1000}], **fields}).encode()
    scoped = (ScopedLimits(None, None, limits),) if limits is not None else ()
    principal = Principal(TenantId("t"), KeyId("k"), frozenset(), limits=scoped)
    request, estimator = parse_generation(CHAT, raw), estimator or TokenEstimator()
    return sizes_of(principal, request, exchange().target, estimator, is_told=is_told)


def test_the_routes_default_and_the_clients_wish() -> None:
    assert sizes().output_max == 50
    assert sizes(max_tokens=7).output_max == 7
    assert sizes(max_tokens=7000).output_max == 7000


def test_a_prompt_is_never_more_tokens_than_bytes() -> None:
    assert 1000 < sizes().prompt_max < 1000 + 400
    assert sizes().prompt_estimate <= sizes().prompt_max


def test_every_choice_counts_for_the_limits() -> None:
    assert sizes(n=3).estimate - sizes(n=1).estimate == 100 + len(', "n": 3') - len(', "n": 1')


def test_no_request_is_too_large_to_be_priced() -> None:
    assert sizes(max_tokens=1 << 20, n=128).output_max == 1 << 20
    many = {"model": "m", "prompt": ["a"] * 2048, "n": 128, "max_tokens": 1 << 20}
    request = parse_generation(COMPLETIONS, json.dumps(many).encode())
    principal = Principal(TenantId("t"), KeyId("k"), frozenset())
    with pytest.raises(InvalidValue) as refused:
        sizes_of(principal, request, exchange().target, TokenEstimator(), is_told=True)
    assert refused.value.param == "max_tokens"


def test_caps_of_the_tenant() -> None:
    capped = sizes(LimitSet(max_prompt_tokens=10, max_output_tokens=3), max_tokens=7)
    assert (capped.prompt_max, capped.output_max, capped.prompt_estimate) == (10, 3, 10)


def test_money_is_held_for_all_bytes_where_no_engine_hears_of_the_cap() -> None:
    limits = LimitSet(max_prompt_tokens=500)
    assert sizes(limits, is_told=False).prompt_max == sizes().prompt_max > 1000


def test_the_cap_is_applied_to_the_estimate_where_no_engine_hears_of_it() -> None:
    """1,050 bytes: at the usual 4 a token until something is learned, then at what was."""
    limits, learned = LimitSet(max_prompt_tokens=300), TokenEstimator()
    assert sizes(limits, is_told=False, estimator=learned).prompt_max > 1000
    learned.learn("m", prompt_bytes=200, prompt_tokens=100, output_tokens=1)
    with pytest.raises(ContextLengthExceeded) as refused:
        sizes(limits, is_told=False, estimator=learned)
    assert (refused.value.status, refused.value.param) == (400, "messages")
    assert sizes(limits, estimator=learned).prompt_max == 300
