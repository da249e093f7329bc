"""`usage/completions` and `usage/embeddings` with the stock client, strictly validated, against the events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import openai
import pytest
from openai.types.admin.organization.usage_completions_response import (
    DataResultOrganizationUsageCompletionsResult as Completions,
)
from openai.types.admin.organization.usage_embeddings_response import (
    DataResultOrganizationUsageEmbeddingsResult as Embeddings,
)

from tests.gateway.http.admin.clients import admin_client, client_of_empty_answers
from tests.gateway.usage_events import correct, settled, write
from tests.harness import Gateway
from tests.instants import just_now

MIDNIGHT = datetime(2026, 3, 29, tzinfo=UTC)
START = int(MIDNIGHT.timestamp())
DAY, HOUR = 86_400, 3_600

# hours after midnight, tokens, fields of the reservation
EVENTS: list[tuple[float, tuple[int, int, int], dict[str, Any]]] = [
    (0, (10, 4, 5), {"user_ref": "u1"}),
    (0.9, (20, 0, 7), {"key_id": "key_b"}),
    (1, (30, 30, 0), {"served_model": "large"}),
    (25, (40, 0, 9), {"tenant_id": "proj_b", "key_id": "key_c", "user_ref": "u2"}),
    (26, (50, 0, 1), {"request_class": "batch", "user_ref": "u1"}),
    (26, (60, 0, 0), {"endpoint": "embeddings", "served_model": "embed"}),
    (49, (70, 10, 2), {"endpoint": "completions", "tenant_id": "proj_b", "key_id": "key_c"}),
]


@pytest.fixture
async def usage(gateway: Gateway) -> AsyncIterator[Any]:
    settlements = [
        settled(number, MIDNIGHT + timedelta(hours=hours), tokens=tokens, asked=asked)
        for number, (hours, tokens, asked) in enumerate(EVENTS)
    ]
    await write(gateway.app.database, settlements)
    yield admin_client(gateway).admin.organization.usage
    await gateway.sql("TRUNCATE usage_event")  # nobody had reserved them: not for the audit of the books


async def _all(call: Any, **query: Any) -> list[Any]:
    """Every bucket of every page."""
    buckets, page = [], await call(**query)
    while True:
        assert page.object == "page"
        buckets += page.data
        assert page.has_more is (page.next_page is not None)
        if not page.has_more:
            return buckets
        page = await call(**query, page=page.next_page)


async def test_every_field_of_a_completions_result(usage: Any) -> None:
    page = await usage.completions(start_time=START, end_time=START + DAY)
    assert (page.object, page.has_more, page.next_page) == ("page", False, None)
    [bucket] = page.data
    assert (bucket.object, bucket.start_time, bucket.end_time) == ("bucket", START, START + DAY)
    [result] = bucket.results
    assert isinstance(result, Completions)
    assert result.to_dict() == {
        "object": "organization.usage.completions.result",
        "num_model_requests": 3,
        "input_tokens": 60,
        "input_uncached_tokens": 26,
        "input_cached_tokens": 34,
        "input_text_tokens": 26,
        "input_cached_text_tokens": 34,
        "input_audio_tokens": 0,
        "input_cached_audio_tokens": 0,
        "input_image_tokens": 0,
        "input_cached_image_tokens": 0,
        "output_tokens": 12,
        "output_text_tokens": 12,
        "output_audio_tokens": 0,
        "output_image_tokens": 0,
        "project_id": None,
        "user_id": None,
        "api_key_id": None,
        "model": None,
        "batch": None,
        "service_tier": None,
        "api_source": None,
    }


async def test_embeddings_apart_from_completions(usage: Any) -> None:
    page = await usage.embeddings(start_time=START, end_time=START + 3 * DAY, group_by=["model"])
    assert [len(bucket.results) for bucket in page.data] == [0, 1, 0]
    [result] = page.data[1].results
    assert isinstance(result, Embeddings)
    assert (result.input_tokens, result.num_model_requests, result.model) == (60, 1, "embed")
    assert (result.project_id, result.api_key_id, result.user_id) == (None, None, None)
    completions = await _all(usage.completions, start_time=START, end_time=START + 3 * DAY)
    assert sum(bucket.results[0].num_model_requests for bucket in completions) == len(EVENTS) - 1


QUERIES: list[tuple[dict[str, Any], dict[tuple[Any, ...], int]]] = [
    ({}, {(): 6}),
    ({"group_by": ["project_id"]}, {("proj_a",): 4, ("proj_b",): 2}),
    ({"group_by": ["api_key_id"]}, {("key_a",): 3, ("key_b",): 1, ("key_c",): 2}),
    ({"group_by": ["model", "project_id"]}, {("proj_a", "tiny"): 3, ("proj_a", "large"): 1, ("proj_b", "tiny"): 2}),
    ({"group_by": ["batch"]}, {(True,): 1, (False,): 5}),
    ({"group_by": ["service_tier"]}, {("interactive",): 5, ("batch",): 1}),
    ({"group_by": ["api_source"]}, {("unlabeled",): 6}),
    ({"group_by": ["user_id"]}, {("u1",): 2, ("u2",): 1, (): 3}),
    ({"user_ids": ["u1", "u2"], "group_by": ["project_id", "user_id"]}, {("proj_a", "u1"): 2, ("proj_b", "u2"): 1}),
    ({"user_ids": ["u1"], "project_ids": ["proj_b"]}, {}),
    ({"batch": True}, {(): 1}),
    ({"batch": False}, {(): 5}),
    ({"project_ids": ["proj_b"]}, {(): 2}),
    ({"project_ids": ["proj_a", "proj_b"], "models": ["large"]}, {(): 1}),
    ({"api_key_ids": ["key_b", "key_c"], "group_by": ["api_key_id"]}, {("key_b",): 1, ("key_c",): 2}),
    ({"project_ids": ["proj_none"]}, {}),
]  # fmt: skip


@pytest.mark.parametrize("width", ["1m", "1h", "1d"])
async def test_groups_and_filters(usage: Any, width: str) -> None:
    """Whatever the buckets, their sum is the same."""
    limit = {"1m": 1440, "1h": 168, "1d": 31}[width]
    names = ("project_id", "user_id", "api_key_id", "model", "batch", "service_tier", "api_source")
    for query, expected in QUERIES:
        found: dict[tuple[Any, ...], int] = {}
        range_ = {"start_time": START, "end_time": START + 3 * DAY, "bucket_width": width, "limit": limit}
        for bucket in await _all(usage.completions, **range_, **query):
            for result in bucket.results:
                group = tuple(value for name in names if (value := getattr(result, name)) is not None)
                assert len(group) <= len(query.get("group_by", ())), "what was not asked for is null"
                found[group] = found.get(group, 0) + result.num_model_requests
        assert found == expected, query


async def test_pages_are_walked_to_the_end(usage: Any) -> None:
    """Duty C23: three days of hours, 24 at a time: each page is capped, nothing is missed and nothing comes twice."""
    pages, page = [], await usage.completions(start_time=START, end_time=START + 3 * DAY, bucket_width="1h")
    while True:
        pages.append(page)
        if page.next_page is None:
            break
        page = await usage.completions(
            start_time=START, end_time=START + 3 * DAY, bucket_width="1h", page=page.next_page
        )
    assert [len(page.data) for page in pages] == [24, 24, 24]
    buckets = [bucket for page in pages for bucket in page.data]
    assert [bucket.start_time for bucket in buckets] == list(range(START, START + 3 * DAY, HOUR))
    assert all(bucket.end_time == bucket.start_time + HOUR for bucket in buckets)
    filled = {(bucket.start_time - START) // HOUR: bucket.results for bucket in buckets if bucket.results}
    assert {hour: results[0].input_tokens for hour, results in filled.items()} == {
        0: 30, 1: 30, 25: 40, 26: 50, 49: 70,
    }  # fmt: skip


async def test_the_range_cuts_the_first_and_the_last_bucket(usage: Any) -> None:
    """The event at 00:54 is before the range, the one at 49:00 is not in it any more."""
    query = {"start_time": START + 3_300, "end_time": START + 49 * HOUR, "group_by": ["model"]}
    days = await _all(usage.completions, **query)
    assert [(bucket.start_time, bucket.end_time) for bucket in days] == [
        (START + 3_300, START + DAY),
        (START + DAY, START + 2 * DAY),
        (START + 2 * DAY, START + 49 * HOUR),
    ]
    sums = [[(result.model, result.input_tokens) for result in bucket.results] for bucket in days]
    assert sums == [[("large", 30)], [("tiny", 90)], []]
    more = await _all(
        usage.completions, **{**query, "start_time": START + 3_240, "end_time": START + 49 * HOUR + 60}
    )
    assert sum(result.num_model_requests for bucket in more for result in bucket.results) == 5


async def test_what_needs_the_events_comes_in_smaller_pages(
    usage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Duty C23: questions about end users read events, so a page ends after so many of them, at a whole bucket."""
    monkeypatch.setattr("gateway.http.admin.usage_query.EVENTS_MAX", 3)
    query = {"start_time": START, "end_time": START + 3 * DAY, "group_by": ["user_id"]}
    page = await usage.completions(**query)
    assert [bucket.start_time for bucket in page.data] == [START], "three requests on the first day"
    assert page.has_more
    buckets = await _all(usage.completions, **query)
    assert [(bucket.start_time - START) // DAY for bucket in buckets] == [0, 1, 2]
    assert sum(result.num_model_requests for bucket in buckets for result in bucket.results) == 6


async def test_pages_are_cut_at_whole_buckets_by_their_results(
    usage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Duty C23: with room for one result, each bucket has a page, and the one with two has them both."""
    monkeypatch.setattr("gateway.http.admin.usage_query.ROWS_MAX", 1)
    query = {"start_time": START - DAY, "end_time": START + 3 * DAY, "group_by": ["model"]}
    pages, page = [], await usage.completions(**query)
    while True:
        pages.append([((bucket.start_time - START) // DAY, len(bucket.results)) for bucket in page.data])
        if not page.has_more:
            break
        page = await usage.completions(**query, page=page.next_page)
    assert pages == [[(-1, 0)], [(0, 2)], [(1, 1)], [(2, 1)]]
    monkeypatch.setattr("gateway.http.admin.usage_query.BUCKET_ROWS_MAX", 1)
    with pytest.raises(openai.BadRequestError, match="narrower"):
        await usage.completions(start_time=START, end_time=START + DAY, group_by=["model"])


async def test_a_correction_changes_tokens_and_no_count(usage: Any, gateway: Gateway) -> None:
    [event] = await gateway.sql("SELECT * FROM usage_event WHERE request_id = 'req_000001'")
    await correct(gateway.app.database, event, completion_tokens=-3, output_nanousd=-1_200)
    [bucket] = (await usage.completions(start_time=START, end_time=START + DAY)).data
    assert (bucket.results[0].output_tokens, bucket.results[0].num_model_requests) == (9, 3)


async def test_without_an_end_the_range_ends_with_the_current_bucket(usage: Any) -> None:
    for _ in range(2):  # again, should midnight come in between
        today = int(just_now().timestamp()) // DAY * DAY
        page = await usage.completions(start_time=today - DAY)
        if len(page.data) == 2:
            break
    assert [(bucket.start_time, bucket.end_time) for bucket in page.data] == [
        (today - DAY, today),
        (today, today + DAY),
    ]
    assert page.has_more is False


async def test_arrays_in_both_spellings(usage: Any, gateway: Gateway) -> None:
    range_ = f"start_time={START}&end_time={START + 3 * DAY}&limit=3"
    bodies = []
    for spelling in (
        "group_by=model&group_by=project_id&project_ids=proj_a",
        "group_by[]=model&group_by[]=project_id&project_ids[]=proj_a",
        "group_by%5B%5D=model&group_by%5b%5d=project_id&project_ids%5B%5D=proj_a",
    ):
        bodies.append(await gateway.admin("GET", f"/usage/completions?{range_}&{spelling}"))
    assert bodies[0] == bodies[1] == bodies[2]
    assert [len(bucket["results"]) for bucket in bodies[0]["data"]] == [2, 1, 0]


BAD_QUERIES: list[tuple[dict[str, Any], str]] = [
    ({"start_time": -1}, "start_time"),
    ({"start_time": 10**15}, "start_time"),
    ({"start_time": START, "end_time": START}, "end_time"),
    ({"start_time": START, "bucket_width": "2h"}, "bucket_width"),
    ({"start_time": START, "limit": 0}, "limit"),
    ({"start_time": START, "limit": 32}, "limit"),
    ({"start_time": START, "limit": 169, "bucket_width": "1h"}, "limit"),
    ({"start_time": START, "limit": 1441, "bucket_width": "1m"}, "limit"),
    ({"start_time": START, "group_by": ["color"]}, "group_by.0"),
    ({"start_time": START, "page": "page_zz"}, "page"),
    ({"start_time": START, "page": f"page_{START:x}"}, "page"),
    ({"start_time": START, "end_time": START + 60, "page": f"page_{START + 60:x}"}, "page"),
    ({"start_time": START, "extra_query": {"projects": "proj_a"}}, "projects"),
    ({"start_time": START, "project_ids": ["x"] * 101}, "project_ids"),
]


async def test_bad_queries_are_typed_errors(usage: Any) -> None:
    for query, param in BAD_QUERIES:
        with pytest.raises(openai.BadRequestError) as refused:
            await usage.completions(**query)
        assert (refused.value.code, refused.value.param) == ("invalid_value", param), query


async def test_other_errors_are_typed(usage: Any, gateway: Gateway) -> None:
    missing = await gateway.request("GET", "/v1/organization/usage/completions", key=gateway.admin_key)
    error = (await missing.json())["error"]
    assert (missing.status, error["code"], error["param"]) == (
        400,
        "missing_required_parameter",
        "start_time",
    )
    with pytest.raises(openai.AuthenticationError):
        await admin_client(gateway, "tw-abcdefgh-" + "A" * 43).admin.organization.usage.completions(
            start_time=START
        )


async def test_an_empty_answer_would_fail_these_tests() -> None:
    """What they rest on: the strict client takes `{}` for no page."""
    async with client_of_empty_answers() as client:
        usage = client.admin.organization.usage
        for call in (usage.completions, usage.embeddings, usage.costs):
            with pytest.raises(openai.APIResponseValidationError):
                await call(start_time=START)
