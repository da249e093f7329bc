"""Lines cut out of pieces, and what a line may hold."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.batches import lines as module
from gateway.batches.lines import Checked, LineRefused, RawLine, check_lines, raw_lines, read_line
from tests.gateway.batches.conftest import pieces

URL = "/v1/embeddings"
GOOD: dict[str, Any] = {"custom_id": "a", "method": "POST", "url": URL, "body": {"model": "m", "input": "x"}}


async def cut(*contents: bytes) -> list[RawLine]:
    return [line async for line in raw_lines(pieces(*contents))]


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
async def test_any_chunking_gives_the_same_lines(content: bytes, places: list[int]) -> None:
    content = content.replace(b"x", b"\n")
    cuts = [0, *sorted(min(place, len(content)) for place in places), len(content)]
    found = await cut(*[content[a:b] for a, b in itertools.pairwise(cuts)])
    wanted = content.split(b"\n")
    if not wanted[-1]:
        wanted.pop()
    assert [line.content for line in found] == wanted
    assert [line.number for line in found] == list(range(1, len(wanted) + 1))
    for line in found:
        assert content[line.begins : line.ends].removesuffix(b"\n") == line.content


async def test_it_goes_on_from_any_line() -> None:
    content = b"one\ntwo\nthree"
    second = (await cut(content))[1]
    rest = raw_lines(pieces(content[second.begins :]), second.number, second.begins)
    assert [line async for line in rest] == (await cut(content))[1:]


async def test_a_line_that_is_too_long_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINE_BYTES_MAX", 5)
    found = await cut(b"ab\n123", b"456", b"789\ncd\n", b"1234567")
    assert [(line.content, line.begins, line.ends) for line in found] == [
        (b"ab", 0, 3),
        (None, 3, 13),
        (b"cd", 13, 16),
        (None, 16, 23),
    ]
    with pytest.raises(LineRefused) as caught:
        read_line(found[1], URL)
    assert (caught.value.error.code, caught.value.error.line) == ("line_too_long", 2)


def raw(fields: Any) -> RawLine:
    return RawLine(3, 0, 1, fields if isinstance(fields, bytes) else json.dumps(fields).encode())


def test_a_good_line_keeps_its_body() -> None:
    line = read_line(raw({**GOOD, "more": 1}), URL)
    assert (line.custom_id, json.loads(line.body)) == ("a", GOOD["body"])


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        (b"{", "invalid_json_line", None),
        (b"", "invalid_json_line", None),
        (b"\xff", "invalid_json_line", None),
        ({**GOOD, "custom_id": None}, "missing_required_parameter", "custom_id"),
        ({**GOOD, "custom_id": ""}, "invalid_custom_id", "custom_id"),
        ({**GOOD, "custom_id": "x" * 513}, "invalid_custom_id", "custom_id"),
        ({**GOOD, "method": "post"}, "invalid_method", "method"),
        ({**GOOD, "url": "/v1/completions"}, "invalid_url", "url"),
        ({**GOOD, "body": []}, "invalid_body", "body"),
        (json.dumps(GOOD).replace('"x"', "[" * 300 + "]" * 300).encode(), "invalid_body", "body"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_line(fields: Any, code: str, param: str | None) -> None:
    with pytest.raises(LineRefused) as caught:
        read_line(raw(fields), URL)
    error = caught.value.error
    assert (error.code, error.param, error.line) == (code, param, 3)


async def check(*fields: Any) -> Checked:
    content = b"".join(json.dumps(one).encode() + b"\n" for one in fields)
    return await check_lines(raw_lines(pieces(content)), URL)


async def test_a_file_has_one_model_or_none() -> None:
    other = {**GOOD, "custom_id": "b", "body": {"model": "n", "input": "x"}}
    assert await check(GOOD) == Checked(1, "m", [])
    assert await check(GOOD, other) == Checked(2, None, [])
    assert (await check({**GOOD, "body": {"input": "x"}})).model is None


async def test_files_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [error.code for error in (await check()).errors] == ["empty_file"]
    monkeypatch.setattr(module, "LINES_MAX", 3)
    many = [{**GOOD, "custom_id": str(number)} for number in range(5)]
    assert [error.code for error in (await check(*many)).errors] == ["too_many_requests"]
    monkeypatch.setattr(module, "ERRORS_MAX", 2)
    assert len((await check(GOOD, GOOD, GOOD)).errors) == 2
