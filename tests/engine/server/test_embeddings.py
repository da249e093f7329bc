"""/v1/embeddings through the `openai` package in strict mode; vectors are scripted, or those of a tiny model."""

from __future__ import annotations

import asyncio
import base64
from array import array
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import openai
import pytest
from openai.types import CreateEmbeddingResponse

from engine.server.embeddings import MAX_INPUTS
from engine.server.journal_reader import read_page
from tests.engine.server.conftest import API_KEY, MODEL, Server, running_server
from tests.fakes.core import embedding_of
from tests.models import write_tiny_llama

PATH = "/v1/embeddings"


def expected(ids: list[int], dimensions: int | None = None) -> np.ndarray[Any, Any]:
    vector = np.array(array("f", embedding_of(ids)), dtype=np.float64)[:dimensions]
    return vector / np.linalg.norm(vector)


async def create(server: Server, given: Any, **fields: Any) -> CreateEmbeddingResponse:
    """Asked for floats: in strict mode the package checks an answer before it decodes one."""
    values = {"model": MODEL, "input": given, "encoding_format": "float", **fields}
    return await server.client().embeddings.create(**values)


async def test_the_package_asks_for_base64_by_itself(server: Server) -> None:
    answer = await server.client(strict=False).embeddings.create(model=MODEL, input=[70, 71])
    assert np.allclose(answer.data[0].embedding, expected([70, 71]), atol=1e-6)


async def test_texts_and_tokens_and_lists_of_both(server: Server) -> None:
    tokenizer = server.services.text.tokenizer
    one, two = (tokenizer.encode(words, add_special_tokens=True) for words in ("The lamps", "The clock"))
    wanted: list[tuple[Any, list[list[int]]]] = [
        ("The lamps", [one]),
        (["The lamps", "The clock"], [one, two]),
        ([70, 71, 72], [[70, 71, 72]]),
        ([[70, 71], [72, 73, 74]], [[70, 71], [72, 73, 74]]),
    ]
    for given, prompts in wanted:
        answer = await create(server, given)
        assert [entry.index for entry in answer.data] == list(range(len(prompts)))
        for entry, ids in zip(answer.data, prompts, strict=True):
            assert np.allclose(entry.embedding, expected(ids), atol=1e-6)
        assert answer.usage.prompt_tokens == answer.usage.total_tokens == sum(map(len, prompts))
        assert answer.model == MODEL


async def test_floats_and_base64_are_the_same_numbers(server: Server) -> None:
    body = {"model": MODEL, "input": "The lamps"}
    async with server.session(API_KEY) as session:
        async with session.post(PATH, json=body) as answer:
            floats = (await answer.json())["data"][0]["embedding"]
        async with session.post(PATH, json={**body, "encoding_format": "base64"}) as answer:
            raw = base64.b64decode((await answer.json())["data"][0]["embedding"])
    assert np.allclose(floats, np.frombuffer(raw, dtype="<f4"), atol=1e-7)
    assert np.linalg.norm(floats) == pytest.approx(1)


async def test_fewer_dimensions_have_length_1_again(server: Server) -> None:
    answer = await create(server, [70, 71, 72], dimensions=3)
    (vector,) = (entry.embedding for entry in answer.data)
    assert len(vector) == 3
    assert np.allclose(vector, expected([70, 71, 72], 3), atol=1e-6)


async def test_the_core_is_asked_for_nothing_but_the_prompt(server: Server) -> None:
    async with server.session() as session:
        headers = {"x-gateway-request-id": "gw-e", "x-cache-salt": "0a", "x-request-class": "batch"}
        body = {"model": MODEL, "input": [[70, 71], [72]], "user": "u"}
        async with session.post(PATH, json=body, headers=headers) as answer:
            assert answer.status == 200
            assert answer.headers["x-tollway-ignored"] == "user"
            assert (await answer.json())["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    first = server.core.seen[0]
    assert (first.sampling.pooling, first.sampling.max_tokens) == ("last", 1)
    assert (first.cache_salt, first.request_class) == (b"\n", "batch")
    assert server.services.journal_dir is not None
    start, end = read_page(server.services.journal_dir, "", 10).records
    assert (start.kind, end.kind, end.request_id) == ("start", "end", "gw-e")
    assert (end.prompt_tokens, end.completion_tokens, end.overrun_tokens) == (3, 0, 0)


async def test_as_many_inputs_as_are_allowed(server: Server) -> None:
    """The core has 256 of them at a time."""
    answer = await create(server, [[70, n % 500] for n in range(MAX_INPUTS)])
    assert len(answer.data) == MAX_INPUTS
    assert np.allclose(answer.data[1234].embedding, expected([70, 1234 % 500]), atol=1e-6)
    assert server.services.bridge.num_live == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", None),
        ("model", 7),
        ("input", None),
        ("input", ""),
        ("input", []),
        ("input", [""]),
        ("input", [[]]),
        ("input", [1, "a"]),
        ("input", {"a": 1}),
        ("input", [512]),
        ("input", ["a"] * (MAX_INPUTS + 1)),
        ("input", [5] * 1024),
        ("encoding_format", "int8"),
        ("encoding_format", 1),
        ("dimensions", 0),
        ("dimensions", 9),
        ("dimensions", "8"),
        ("add_special_tokens", 1),
        ("cache_salt", 5),
        ("messages", [{"role": "user", "content": "x"}]),
        ("truncate_prompt_tokens", 5),
    ],
)
async def test_bad_values_name_their_field(server: Server, field: str, value: Any) -> None:
    body = {"model": MODEL, "input": "x", "add_special_tokens": False} | {field: value}
    if field == "add_special_tokens":
        body["add_special_tokens"] = value
    async with server.session(API_KEY) as session, session.post(PATH, json=body) as answer:
        error = (await answer.json())["error"]
        assert (answer.status, str(error["param"]).split("[")[0]) == (400, field), error
    assert not server.core.seen


async def test_one_engine_may_serve_only_the_one_or_the_other(model_dir: Path, tmp_path: Path) -> None:
    async with running_server(model_dir, tmp_path / "a", runner="generate") as server:
        with pytest.raises(openai.BadRequestError, match="--runner generate"):
            await create(server, "x")
    config = '{"pooling_type": "MEAN", "normalize": false}'
    async with running_server(model_dir, tmp_path / "b", runner="pooling", pooler_config=config) as server:
        with pytest.raises(openai.BadRequestError, match="--runner pooling"):
            await server.client().completions.create(model=MODEL, prompt="x")
        answer = await create(server, [70, 71])
        assert answer.data[0].embedding[0] == 2.0
        assert server.core.seen[-1].sampling.pooling == "mean"


async def test_a_caller_who_leaves_takes_all_inputs_along(server: Server) -> None:
    server.core.hold()
    async with server.session(API_KEY) as session:
        body = {"model": MODEL, "input": [[70]] * 300}
        asking = asyncio.create_task(_post(session, body))
        await server.core_until(lambda: len(server.core.seen) == 256)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await server.core_until(lambda: server.core.num_live == 0)
    await server.until(lambda: not server.services.in_flight and server.services.bridge.num_live == 0)
    assert len(server.core.seen) == 256


async def _post(session: aiohttp.ClientSession, body: dict[str, Any]) -> int:
    async with session.post(PATH, json=body) as answer:
        return answer.status


async def test_a_tiny_model(tmp_path: Path) -> None:
    """Through the real scheduler: beside answers, again from the cache, and like texts near to each other."""
    write_tiny_llama(tmp_path / "model")
    async with running_server(tmp_path / "model", tmp_path / "journal", real_core=True) as server:
        client = server.client()
        texts = [
            "The keeper of the lighthouse wrote down every ship that passed. " * 3 + end for end in ("", "x")
        ]
        first, again = await create(server, texts), await create(server, texts)
        for one, other in zip(first.data, again.data, strict=True):
            assert len(one.embedding) == 64
            assert np.linalg.norm(one.embedding) == pytest.approx(1, abs=1e-5)
            assert np.allclose(one.embedding, other.embedding, atol=1e-4)
        details = again.usage.to_dict()["prompt_tokens_details"]
        assert isinstance(details, dict)
        assert details["cached_tokens"] > 32
        answer = await client.completions.create(model=MODEL, prompt=texts[0], max_tokens=3)
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 3
