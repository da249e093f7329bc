"""A stream cut at any token and gone on with elsewhere is the stream that was not cut.

Two replicas that compute: what the first one sent up to the cut and what the second one adds are the whole stream. A
cut is what a gateway may know: the blocks that it relayed, and of the next block's ids as many as it likes, since ids
whose text is held back come with the block that shows it. CI tries a cut of each kind of request and of some of the
fifty mixed ones, chosen by a fixed seed; `make resume` tries every cut of every one.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.engine.server.answer_template import TEMPLATE
from tests.engine.server.conftest import MODEL, Server, running_server
from tests.engine.server.resume_cases import CHAT, Case, cases, mixed_cases
from tests.engine.server.resuming import post, relayed, resume_body
from tests.engine.server.streams import Block, parse
from tests.models import write_tiny_llama

SEED = 5
ALL = os.environ.get("RESUME_CUTS") == "all"
FEW_MIXED = 15
AT_ONCE = 24
NEAR_TIE = 1e-3
PARSERS: dict[str, Any] = {"reasoning_parser": "qwen3", "tool_call_parser": "hermes"}
Replicas = tuple[Server, Server]


@dataclass(frozen=True)
class Cut:
    """What was relayed, and ids of the next block that brought nothing yet."""

    num_blocks: int
    index: int = 0
    ids: tuple[int, ...] = ()


def cuts_of(blocks: Sequence[Block]) -> Iterator[Cut]:
    """Every one, in order: at every block, and at every token of the block behind it."""
    last = max(number for number, block in enumerate(blocks, 1) if block.ended)
    for number in range(1, last + 1):
        yield Cut(number)
        for index, ids in blocks[number].ids.items():
            for count in range(1, len(ids)):
                yield Cut(number, index, tuple(ids[:count]))


def by_choice(stream: bytes) -> list[Any]:
    """What does not depend on which step brought what: the events of each choice in order, its role once, and usage
    only at the end."""
    events = [json.loads(block.data) for block in parse(stream) if block.data != b"[DONE]"]
    roles: set[int] = set()
    kept = []
    for event in events:
        choice: dict[str, Any] = event["choices"][0] if event["choices"] else {"index": len(events)}
        if event["choices"]:
            event.pop("usage", None)
        if "role" in choice.get("delta", ()):
            if choice["index"] in roles:
                continue
            roles.add(choice["index"])
        kept.append((choice["index"], event))
    return [event for _, event in sorted(kept, key=lambda pair: pair[0])]


@pytest.fixture(scope="module")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resume") / "llama"
    write_tiny_llama(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@pytest.fixture
async def invariant(tiny_llama: Path, tmp_path: Path) -> AsyncIterator[Replicas]:
    flags = {**PARSERS, "batch_invariant": True, "real_core": True}
    async with (
        running_server(tiny_llama, tmp_path / "a", **flags) as one,
        running_server(tiny_llama, tmp_path / "b", **flags) as other,
    ):
        yield one, other


@pytest.fixture
async def ordinary(tiny_llama: Path, tmp_path: Path) -> AsyncIterator[Replicas]:
    async with (
        running_server(tiny_llama, tmp_path / "a", **PARSERS, real_core=True) as one,
        running_server(tiny_llama, tmp_path / "b", **PARSERS, real_core=True) as other,
    ):
        yield one, other


async def compare(replicas: Replicas, some: Sequence[Case], same: Any) -> int:
    """Cut each request, and compare the joined stream with the whole. Returns the number of cuts."""
    one, other = replicas
    room = asyncio.Semaphore(AT_ONCE)
    print("seed", SEED)

    async def check(case: Case) -> tuple[int, list[str]]:
        name, path, body = case
        request = {"model": MODEL, **body}
        blocks = parse(await post(one, path, request))
        chosen = list(cuts_of(blocks))
        if not ALL:
            draw = random.Random(f"{SEED} {name}")
            within = [cut for cut in chosen if cut.ids]
            chosen = [draw.choice(within if within and draw.random() < 0.7 else chosen)]

        async def at(cut: Cut) -> str | None:
            asked = resume_body(blocks[: cut.num_blocks], request)
            asked["outputs"][cut.index] += cut.ids
            async with room:
                rest = await post(other, "/internal/resume", asked)
            joined = relayed(blocks[: cut.num_blocks]) + relayed(parse(rest))
            whole = relayed(blocks)
            return None if same(case, joined, whole) else f"{name} at {cut}:\n{joined!r}\n{whole!r}"

        found = await asyncio.gather(*map(at, chosen))
        return len(chosen), [difference for difference in found if difference is not None]

    results = await asyncio.gather(*map(check, some))
    wrong = [each for _, differences in results for each in differences]
    num_cuts = sum(count for count, _ in results)
    print(f"{len(some)} requests, {num_cuts} cuts, {len(wrong)} differ")
    assert not wrong, f"{len(wrong)} of {num_cuts} differ, the first: {wrong[0]}"
    return num_cuts


def bitwise(case: Case, joined: bytes, whole: bytes) -> bool:
    """Steps bring the news of several choices together, and how many tokens came so far."""
    _, _, body = case
    if body.get("n", 1) > 1 or (body["stream_options"] or {}).get("continuous_usage_stats"):
        return by_choice(joined) == by_choice(whole)
    return joined == whole


def test_there_are_fifty_of_each() -> None:
    for some in (cases(), mixed_cases(SEED)):
        names = [name for name, _, _ in some]
        assert len(names) >= 50
        assert len(set(names)) == len(names)


async def test_every_kind_of_request(invariant: Replicas) -> None:
    assert await compare(invariant, cases(), bitwise) >= len(cases())


async def test_fifty_mixed_requests(invariant: Replicas) -> None:
    """The bar: plain, stop string, tool call, JSON schema and seeded sampling."""
    some = mixed_cases(SEED) if ALL else mixed_cases(SEED)[:FEW_MIXED]
    assert await compare(invariant, some, bitwise) >= len(some)


async def test_only_a_near_tie_may_fall_otherwise(ordinary: Replicas) -> None:
    """Without --batch-invariant a token's numbers depend on its batch: greedy answers agree up to a place where the
    two likeliest tokens are as good as equal."""
    greedy: list[Case] = [
        (name, path, {**body, "temperature": 0, "logprobs": True, "top_logprobs": 2})
        for name, path, body in mixed_cases(SEED)
        if name.startswith(("stop string", "seeded sampling")) and "presence_penalty" not in body
    ]
    assert {path for _, path, _ in greedy} == {CHAT}
    assert await compare(ordinary, greedy, equal_up_to_a_near_tie)


def equal_up_to_a_near_tie(case: Case, joined: bytes, whole: bytes) -> bool:
    for found, wanted in zip(tokens(joined), tokens(whole), strict=False):
        if found["token"] != wanted["token"]:
            best, second = (entry["logprob"] for entry in wanted["top_logprobs"])
            return bool(best - second < NEAR_TIE)
        if abs(found["logprob"] - wanted["logprob"]) >= NEAR_TIE:
            return False
    return texts(joined) == texts(whole)


def tokens(stream: bytes) -> list[Any]:
    choices = [choice for event in by_choice(stream) for choice in event["choices"]]
    return [entry for choice in choices for entry in (choice["logprobs"] or {"content": []})["content"]]


def texts(stream: bytes) -> str:
    choices = [choice for event in by_choice(stream) for choice in event["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)
