"""Replays the contract fixtures against anything that claims to speak the gateway ↔ engine contract.

A fixture is a request and a pattern of its answer (`{"repeat": text, "times": n}` in it is a long text). Patterns name no engine: a value must be equal, a string in
angle brackets stands for a kind of value (`<str>`, `<int>`, `<positive>`, `<number>`, `<bool>`, `<null>`,
`<any>`, `<model>`, `<list>`), an object must have the listed keys (others are allowed) and not the keys whose
pattern is `<absent>`. Fixtures carry `needs`: what a target must be able to do (`internal` = our own headers and
/internal routes, `stream_usage`, `embeddings`); a target's test takes those that fit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

FIXTURES = Path(__file__).parent / "fixtures"


@dataclass(frozen=True)
class Fixture:
    name: str
    needs: frozenset[str]
    request: dict[str, Any]
    expect: dict[str, Any]


@dataclass(frozen=True)
class TargetUrl:
    """Where to replay: `model` is the served name the target answers to."""

    url: str
    api_key: str
    model: str


def fixtures(able_to: frozenset[str]) -> list[Fixture]:
    found = [_load(path) for path in sorted(FIXTURES.glob("*.json"))]
    assert found, f"no fixtures under {FIXTURES}"
    return [fixture for fixture in found if fixture.needs <= able_to]


async def replay(fixture: Fixture, target: TargetUrl) -> None:
    """Sends the fixture's request and raises AssertionError with the path of the first difference."""
    request, expect = fixture.request, fixture.expect
    headers = {"authorization": f"Bearer {target.api_key}", **request.get("headers", {})}
    headers = {name: value for name, value in headers.items() if value is not None}
    body = json.dumps(_fill(request["body"], target.model)) if "body" in request else request.get("raw")
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            request["method"],
            target.url + request["path"],
            headers={"content-type": "application/json", **headers},
            data=body,
        ) as response,
    ):
        raw = await response.read()
        assert response.status == expect["status"], f"{response.status}: {raw[:500]!r}"
        for name, pattern in expect.get("headers", {}).items():
            match(response.headers.get(name), pattern, target.model, f"header {name}")
    if "body" in expect:
        match(json.loads(raw), expect["body"], target.model, "body")
    if "stream" in expect:
        _match_stream(raw, expect["stream"], target.model)


def _match_stream(raw: bytes, expect: dict[str, Any], model: str) -> None:
    assert raw.endswith(b"\n\n"), f"the stream ends inside an event: {raw[-80:]!r}"
    lines = [line for event in raw.decode().split("\n\n") for line in event.split("\n") if line]
    data = [line.removeprefix("data: ") for line in lines if not line.startswith(":")]
    done = data[-1:] == ["[DONE]"]
    assert done is expect["done"], f"[DONE] {'present' if done else 'missing'}"
    events = [json.loads(text) for text in (data[:-1] if done else data)]
    assert events, "no events"
    for index, event in enumerate(events):
        if "every" in expect:
            match(event, expect["every"], model, f"event[{index}]")
    for place, index in (("first", 0), ("last", -1), ("before_last", -2)):
        if place in expect:
            match(events[index], expect[place], model, f"{place} event")


def match(value: Any, pattern: Any, model: str, where: str) -> None:
    if isinstance(pattern, str) and pattern.startswith("<") and pattern.endswith(">"):
        assert _kind(value, pattern, model), f"{where}: {value!r} is no {pattern}"
    elif isinstance(pattern, dict):
        assert isinstance(value, dict), f"{where}: {value!r} is no object"
        for key, inner in pattern.items():
            if inner == "<absent>":
                assert key not in value, f"{where}.{key}: must not be there"
            else:
                assert key in value, f"{where}.{key}: missing in {value!r}"
                match(value[key], inner, model, f"{where}.{key}")
    elif isinstance(pattern, list):
        assert isinstance(value, list), f"{where}: {value!r} is no list"
        assert len(value) == len(pattern), f"{where}: {len(value)} elements, expected {len(pattern)}"
        for index, (got, inner) in enumerate(zip(value, pattern, strict=True)):
            match(got, inner, model, f"{where}[{index}]")
    else:
        assert value == pattern, f"{where}: {value!r}, expected {pattern!r}"


def _kind(value: Any, pattern: str, model: str) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    kinds = {
        "<any>": True,
        "<str>": isinstance(value, str) and value != "",
        "<text>": isinstance(value, str),
        "<int>": isinstance(value, int) and not isinstance(value, bool),
        "<positive>": isinstance(value, int) and value > 0,
        "<number>": number,
        "<bool>": isinstance(value, bool),
        "<null>": value is None,
        "<list>": isinstance(value, list),
        "<some>": isinstance(value, list) and len(value) > 0,
        "<model>": value == model,
        "<models>": isinstance(value, list) and model in value,
    }
    return kinds[pattern]


def _fill(body: Any, model: str) -> Any:
    if isinstance(body, dict) and body.keys() == {"repeat", "times"}:
        return str(body["repeat"]) * int(body["times"])
    if isinstance(body, dict):
        return {key: _fill(value, model) for key, value in body.items()}
    return model if body == "<model>" else body


def _load(path: Path) -> Fixture:
    data = json.loads(path.read_text(encoding="utf-8"))
    return Fixture(path.stem, frozenset(data.get("needs", ())), data["request"], data["expect"])
