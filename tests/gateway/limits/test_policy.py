"""Descriptors, headers and refusals, without any state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ids import KeyId, TenantId
from gateway.limits.policy import (
    Answer,
    Kind,
    LimitRequest,
    SizeCaps,
    descriptors_of,
    go_duration,
    hopeless,
    open_calls_key,
    ratelimit_headers,
    refusal,
    size_caps,
)
from gateway.tenancy.principal import LimitSet, Principal, ScopedLimits


def principal_of(*rows: ScopedLimits) -> Principal:
    return Principal(TenantId("proj_a"), KeyId("key_a"), frozenset(), limits=rows)


ALL = LimitSet(60, None, 1000, 100, 5, None, None)


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "0s"),
        (1, "1ms"),
        (120_000, "120ms"),
        (999_999, "1s"),
        (1_000_000, "1s"),
        (1_500_000, "1.5s"),
        (59_999_999, "1m0s"),
        (360_000_000, "6m0s"),
        (3_600_000_000, "1h0m0s"),
        (86_399_999_000, "23h59m59.999s"),
        (-5, "0s"),
    ],
)
def test_go_duration(microseconds: int, text: str) -> None:
    assert go_duration(microseconds) == text


@given(st.integers(min_value=1, max_value=10**13))
def test_go_duration_never_promises_too_early(microseconds: int) -> None:
    text = go_duration(microseconds)
    total = 0.0
    for unit, seconds in (("h", 3600), ("m", 60)):
        if unit in text and not text.endswith("ms"):
            number, text = text.split(unit, 1)
            total += int(number) * seconds
    total += float(text[:-2]) / 1000 if text.endswith("ms") else float(text[:-1])
    assert microseconds / 1e6 <= total + 1e-9 < microseconds / 1e6 + 0.001 + 2e-9


def test_only_rows_that_concern_the_call_give_descriptors() -> None:
    limits = LimitSet(requests_per_min=10)
    who = principal_of(
        ScopedLimits(None, None, limits),
        ScopedLimits(KeyId("key_a"), None, limits),
        ScopedLimits(KeyId("key_b"), None, limits),
        ScopedLimits(None, "tiny", limits),
        ScopedLimits(None, "large", limits),
        ScopedLimits(KeyId("key_a"), "tiny", limits),
    )
    assert [d.scope for d in descriptors_of(who, "tiny")] == ["tenant", "key", "model", "key_model"]


def test_all_keys_of_a_call_share_the_tenants_hash_tag_and_differ() -> None:
    who = principal_of(
        ScopedLimits(None, None, ALL),
        ScopedLimits(KeyId("key_a"), None, ALL),
        ScopedLimits(None, "t", ALL),
        ScopedLimits(KeyId("key_a"), "t", ALL),
    )
    keys = [d.key for d in descriptors_of(who, "t")] + [open_calls_key(who.tenant_id)]
    assert len(set(keys)) == len(keys) == 17
    assert all(key.startswith("tw:{proj_a}:") for key in keys)


def test_each_class_has_buckets_of_its_own() -> None:
    who = principal_of(ScopedLimits(None, None, ALL), ScopedLimits(KeyId("key_a"), None, ALL))
    interactive, batch = descriptors_of(who, "t"), descriptors_of(who, "t", "batch")
    assert not {one.key for one in interactive} & {one.key for one in batch}
    assert [one.size for one in interactive] == [one.size for one in batch]
    assert all(one.key.startswith("tw:{proj_a}:") for one in batch)


def test_burst_is_a_tenth_and_at_least_one_unless_given() -> None:
    def size(limits: LimitSet) -> int:
        return descriptors_of(principal_of(ScopedLimits(None, None, limits)), "m")[0].size

    assert size(LimitSet(requests_per_min=60)) == 6
    assert size(LimitSet(requests_per_min=3)) == 1
    assert size(LimitSet(requests_per_min=60, requests_burst=25)) == 25
    assert size(LimitSet(requests_per_min=60, requests_burst=0)) == 1


def test_caps_are_the_smallest_of_the_rows_that_concern_the_call() -> None:
    who = principal_of(
        ScopedLimits(None, None, LimitSet(max_prompt_tokens=1000, max_output_tokens=500)),
        ScopedLimits(None, "tiny", LimitSet(max_prompt_tokens=200)),
        ScopedLimits(KeyId("key_b"), None, LimitSet(max_output_tokens=1)),
    )
    assert size_caps(who, "tiny") == SizeCaps(200, 500)
    assert size_caps(principal_of(), "tiny") == SizeCaps(None, None)


def test_hopeless_is_larger_than_the_whole_limit() -> None:
    descriptors = descriptors_of(principal_of(ScopedLimits(None, None, ALL)), "m")
    assert hopeless(descriptors, LimitRequest(1000)) is None
    index = hopeless(descriptors, LimitRequest(1001))
    assert index is not None
    assert descriptors[index].kind is Kind.TOKENS


def test_refusal_names_limit_used_and_requested() -> None:
    descriptors = descriptors_of(principal_of(ScopedLimits(None, None, ALL)), "tiny")
    answer = Answer(3, 1_500_000, 0, (5, 6, 100, -20), (0, 0, 1, 12_000_000))
    error = refusal(descriptors, answer, LimitRequest(40), "tiny")
    assert error.message == (
        "Rate limit reached for `tiny` in your project on tokens per min (TPM):"
        " Limit 1000, Used 1020, Requested 40. Please try again in 1.5s."
    )
    assert error.type == "tokens"
    assert error.response_headers()["retry-after"] == "2"
    assert error.response_headers()["retry-after-ms"] == "1500"
    assert error.response_headers()["x-ratelimit-remaining-tokens"] == "0"


def test_headers_of_a_day_limit_appear_when_it_is_the_tightest() -> None:
    descriptors = descriptors_of(
        principal_of(ScopedLimits(None, None, LimitSet(requests_per_min=60, requests_per_day=100))), "m"
    )
    headers = ratelimit_headers(descriptors, Answer(None, 0, 0, (5, 2), (1_000_000, 3_600_000_000)))
    assert headers == {
        "x-ratelimit-limit-requests": "100",
        "x-ratelimit-remaining-requests": "2",
        "x-ratelimit-reset-requests": "1h0m0s",
    }
