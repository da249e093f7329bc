"""Every field of a request on a running engine, through the `openai` package in strict mode, one test for each.

The model is a tiny one with random weights, or the checkpoint that FIELDS_MODEL names. (What each field does to the
core's request: tests/engine/server; what each sampling parameter does: tests/engine/runner.)
"""

from __future__ import annotations

import base64
import math
import os
from array import array
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
import pytest_asyncio
from openai.types import Completion

from tests.engine.server.answer_template import TEMPLATE
from tests.engine.server.test_strict_client import Chunk
from tests.engine.test_core_process import Engine, serving
from tests.models import write_tiny_llama

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]
CHECKPOINT = os.environ.get("FIELDS_MODEL")
PROMPT = "The keeper of the lighthouse wrote down"
USER: list[Any] = [{"role": "user", "content": PROMPT}]
LENGTH = 10


class Walk:
    """One engine, asked with defaults that leave nothing to chance."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.client = openai.AsyncOpenAI(
            base_url=f"{engine.url}/v1", api_key="internal", max_retries=0, _strict_response_validation=True
        )

    async def chat(self, messages: list[Any] | None = None, **fields: Any) -> Any:
        extra = {"return_token_ids": True, "ignore_eos": True, **fields.pop("extra_body", {})}
        values = {"model": "m", "messages": messages or USER, "max_tokens": LENGTH, "temperature": 0}
        return await self.client.chat.completions.create(**values | fields, extra_body=extra)

    async def complete(self, **fields: Any) -> Any:
        extra = {"return_token_ids": True, "ignore_eos": True, **fields.pop("extra_body", {})}
        values = {"model": "m", "prompt": PROMPT, "max_tokens": LENGTH, "temperature": 0}
        return await self.client.completions.create(**values | fields, extra_body=extra)

    async def ids(self, **fields: Any) -> list[int]:
        return (await self.complete(**fields)).choices[0].token_ids

    async def tokens(self, **body: Any) -> list[int]:
        async with self.engine.session.post("/tokenize", json=body) as answer:
            assert answer.status == 200, await answer.text()
            return (await answer.json())["tokens"]

    async def letters(self) -> tuple[int, int]:
        """Two tokens that no text of these tests has."""
        (one,), (two,) = [await self.tokens(prompt=char, add_special_tokens=False) for char in "QX"]
        return one, two

    async def chunks(self, **fields: Any) -> list[Chunk]:
        """Of a completion's stream. The package's own type is stricter than OpenAI's server, see `Chunk`."""
        values = {"model": "m", "prompt": PROMPT, "max_tokens": LENGTH, "temperature": 0, "ignore_eos": True}
        async with self.engine.session.post(
            "/v1/completions", json={**values, **fields, "stream": True}
        ) as answer:
            assert answer.status == 200, await answer.text()
            *events, done = (await answer.text()).strip().split("\n\n")
        assert done == "data: [DONE]"
        return [Chunk.model_validate_json(event.removeprefix("data: ")) for event in events]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def walk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Walk]:
    folder = tmp_path_factory.mktemp("walk")
    model = Path(CHECKPOINT) if CHECKPOINT else write_tiny_llama(folder / "model")
    (folder / "template.jinja").write_text(TEMPLATE)
    flags = ("--chat-template", str(folder / "template.jinja"), "--enable-auto-tool-choice")
    flags += ("--tool-call-parser", "hermes", "--max-model-len", "1024")
    if CHECKPOINT:
        flags += ("--kv-cache-memory-bytes", str(512 << 20))
    async with serving(model, *flags) as engine:
        walking = Walk(engine)
        yield walking
        await walking.client.close()


@pytest.mark.parametrize("stream", [False, True])
async def test_n_at_temperature_0(walk: Walk, stream: bool) -> None:
    alone = (await walk.complete()).choices[0].text
    if stream:
        chunks = await walk.chunks(n=3, stream_options={"include_usage": True})
        news = [choice for chunk in chunks for choice in chunk.choices]
        texts = ["".join(part.text for part in news if part.index == index) for index in range(3)]
        ends = [
            [part.finish_reason for part in news if part.index == i and part.finish_reason] for i in range(3)
        ]
        assert ends == [["length"]] * 3
        usage = chunks[-1].usage
    else:
        whole = await walk.complete(n=3)
        assert [choice.index for choice in whole.choices] == [0, 1, 2]
        texts, usage = [choice.text for choice in whole.choices], whole.usage
    assert texts == [alone] * 3
    assert usage is not None
    assert usage.completion_tokens == 3 * LENGTH


async def test_n_of_a_chat_streamed(walk: Walk) -> None:
    whole = await walk.chat(n=2, temperature=1, seed=5)
    texts = {0: "", 1: ""}
    async for chunk in await walk.chat(n=2, temperature=1, seed=5, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert [choice.message.content for choice in whole.choices] == list(texts.values())
    assert texts[0] != texts[1]


async def test_logprobs_of_a_chat(walk: Walk) -> None:
    choice = (await walk.chat(logprobs=True, top_logprobs=4)).choices[0]
    assert len(choice.logprobs.content) == LENGTH
    for entry in choice.logprobs.content:
        assert bytes(entry.bytes).decode("utf-8", "replace") == entry.token
        assert [other.logprob for other in entry.top_logprobs] == sorted(
            (other.logprob for other in entry.top_logprobs), reverse=True
        )
        assert len(entry.top_logprobs) == 4
        assert (entry.token, entry.logprob) == (entry.top_logprobs[0].token, entry.top_logprobs[0].logprob)
        assert sum(math.exp(other.logprob) for other in entry.top_logprobs) <= 1 + 1e-5
    assert b"".join(bytes(entry.bytes) for entry in choice.logprobs.content).decode("utf-8", "replace") == (
        choice.message.content
    )
    none = (await walk.chat(logprobs=True)).choices[0]
    assert [entry.top_logprobs for entry in none.logprobs.content] == [[]] * LENGTH
    assert (await walk.chat()).choices[0].logprobs is None


async def test_logprobs_of_a_completion(walk: Walk) -> None:
    choice = (await walk.complete(logprobs=3)).choices[0]
    lines = choice.logprobs
    ends = [*lines.text_offset[1:], len(choice.text)]
    assert lines.text_offset[0] == 0
    for token, start, end in zip(lines.tokens, lines.text_offset, ends, strict=True):
        assert choice.text[start:end].endswith(token) or "\ufffd" in token, "parts of a character"
    for token, value, others in zip(lines.tokens, lines.token_logprobs, lines.top_logprobs, strict=True):
        assert others[token] == value == max(others.values())
        assert len(others) <= 3
    chosen = (await walk.complete(logprobs=0)).choices[0].logprobs
    assert [len(others) for others in chosen.top_logprobs] == [1] * LENGTH


async def test_prompt_logprobs(walk: Walk) -> None:
    whole = await walk.complete(extra_body={"prompt_logprobs": 2})
    choice = whole.choices[0]
    ids = choice.prompt_token_ids
    assert choice.prompt_logprobs[0] is None
    for token_id, entry in zip(ids[1:], choice.prompt_logprobs[1:], strict=True):
        assert str(token_id) in entry
        assert sorted(line["rank"] for line in entry.values())[:2] == [1, 2]
    chat = await walk.chat(extra_body={"prompt_logprobs": 0})
    assert len(chat.prompt_logprobs) == chat.usage.prompt_tokens
    assert [len(entry) for entry in chat.prompt_logprobs[1:]] == [1] * (chat.usage.prompt_tokens - 1)


async def test_echo_scores_without_generating(walk: Walk) -> None:
    """The first token has no probability: `null`, as from OpenAI's server, which the package has no type for."""
    with pytest.raises(openai.APIResponseValidationError) as untyped:
        await walk.complete(echo=True, max_tokens=0, logprobs=1)
    body: Any = untyped.value.body
    lines = body["choices"][0]["logprobs"]
    assert (lines["token_logprobs"].pop(0), lines["top_logprobs"].pop(0)) == (None, None)
    whole = Completion.model_validate(body, strict=True)
    choice = whole.choices[0]
    assert whole.usage is not None
    assert choice.logprobs is not None
    assert (whole.usage.completion_tokens, choice.finish_reason) == (0, "length")
    assert choice.text.endswith(PROMPT)
    assert len(choice.logprobs.tokens or ()) == whole.usage.prompt_tokens
    assert all(value < 0 for value in choice.logprobs.token_logprobs or [0])
    longer = await walk.complete(echo=True)
    assert longer.choices[0].text == choice.text + (await walk.complete()).choices[0].text


async def test_logit_bias(walk: Walk) -> None:
    letter, _ = await walk.letters()
    assert await walk.ids(logit_bias={str(letter): 100}) == [letter] * LENGTH
    plain = await walk.ids()
    assert plain[0] not in await walk.ids(logit_bias={str(plain[0]): -100})


@pytest.mark.parametrize("name", ["presence_penalty", "frequency_penalty", "repetition_penalty"])
async def test_penalties(walk: Walk, name: str) -> None:
    """Who may only say letters says more of them."""
    letters = [(await walk.tokens(prompt=char, add_special_tokens=False))[0] for char in "abcdefgh"]
    only = {"allowed_token_ids": letters}
    plain = await walk.ids(max_tokens=16, extra_body=only)
    assert len(set(await walk.ids(max_tokens=16, extra_body={**only, name: 2}))) > len(set(plain))


async def test_which_tokens_may_come(walk: Walk) -> None:
    assert set(await walk.ids(extra_body={"allowed_token_ids": [70, 71]})) <= {70, 71}
    letter, other = await walk.letters()
    bias = {str(letter): 100, str(other): 50}
    assert await walk.ids(logit_bias=bias) == [letter] * LENGTH
    assert await walk.ids(logit_bias=bias, extra_body={"bad_words": ["Q"]}) == [other] * LENGTH


async def test_where_an_answer_ends(walk: Walk) -> None:
    plain = await walk.complete()
    ids, text = plain.choices[0].token_ids, plain.choices[0].text
    by_id = (await walk.complete(extra_body={"stop_token_ids": [ids[3]]})).choices[0]
    end = ids.index(ids[3])
    assert (by_id.token_ids, by_id.finish_reason, by_id.stop_reason) == (ids[: end + 1], "stop", ids[3])
    stop = text[3:6]
    by_text = (await walk.complete(stop=[stop])).choices[0]
    assert (by_text.text, by_text.finish_reason) == (text[: text.index(stop)], "stop")
    shown = (await walk.complete(stop=stop, extra_body={"include_stop_str_in_output": True})).choices[0]
    assert shown.text == text[: text.index(stop) + len(stop)]


async def test_min_tokens(walk: Walk) -> None:
    """A token that is the likeliest by far ends the answer, but not before so many."""
    letter, _ = await walk.letters()
    fields = {"stop_token_ids": [letter], "min_tokens": 4}
    held = (await walk.complete(logit_bias={str(letter): 100}, extra_body=fields)).choices[0]
    assert (len(held.token_ids), held.token_ids[-1], held.finish_reason) == (5, letter, "stop")
    assert letter not in held.token_ids[:-1]


async def test_prompts_of_all_kinds(walk: Walk) -> None:
    ids = await walk.tokens(prompt=PROMPT)
    texts = await walk.complete(prompt=[PROMPT, "A bridge is"])
    assert [choice.index for choice in texts.choices] == [0, 1]
    numbers = await walk.complete(prompt=ids)
    lists = await walk.complete(prompt=[ids, ids[:3]], n=2)
    assert [choice.prompt_token_ids for choice in lists.choices] == [ids, ids, ids[:3], ids[:3]]
    alone = (await walk.complete()).choices[0].token_ids
    assert texts.choices[0].token_ids == numbers.choices[0].token_ids == lists.choices[1].token_ids == alone


async def test_a_message_is_continued(walk: Walk) -> None:
    said = [*USER, {"role": "assistant", "content": "every ship that"}]
    whole = await walk.chat(
        said, extra_body={"continue_final_message": True, "add_generation_prompt": False, "echo": True}
    )
    begun = await walk.tokens(messages=said, continue_final_message=True, add_generation_prompt=False)
    assert whole.prompt_token_ids == begun
    assert whole.choices[0].message.content.startswith("every ship that")


async def test_variables_of_the_template(walk: Walk) -> None:
    plain = await walk.chat()
    thinking = await walk.chat(extra_body={"chat_template_kwargs": {"think": True}})
    extra = await walk.tokens(prompt="think>\n", add_special_tokens=False)
    assert thinking.usage.prompt_tokens > plain.usage.prompt_tokens
    assert thinking.prompt_token_ids[-len(extra) :] == extra
    assert thinking.choices[0].message.content is None
    assert thinking.choices[0].message.reasoning == thinking.choices[0].message.reasoning_content != ""
    assert thinking.usage.completion_tokens_details.reasoning_tokens == LENGTH


async def test_token_ids_come_back(walk: Walk) -> None:
    whole = await walk.chat()
    assert len(whole.choices[0].token_ids) == LENGTH
    assert len(whole.prompt_token_ids) == whole.usage.prompt_tokens
    found: list[int] = []
    async for chunk in await walk.chat(stream=True):
        found += [token for choice in chunk.choices for token in choice.to_dict().get("token_ids") or []]
    assert found == whole.choices[0].token_ids


async def test_usage_in_every_chunk(walk: Walk) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    stream = await walk.chat(stream=True, stream_options=options)
    usages = [chunk.usage async for chunk in stream]
    counts = [usage.completion_tokens for usage in usages if usage]
    assert len(counts) == len(usages)
    assert counts == sorted(counts)
    assert counts[-1] == LENGTH
    last_only = [
        chunk.usage async for chunk in await walk.chat(stream=True, stream_options={"include_usage": True})
    ]
    assert [usage is not None for usage in last_only] == [False] * (len(last_only) - 1) + [True]


async def test_content_parts_and_the_developer(walk: Walk) -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": PROMPT}]}]
    assert (await walk.chat(parts)).prompt_token_ids == (await walk.chat()).prompt_token_ids
    told = await walk.chat([{"role": "developer", "content": "Be brief."}, *USER])
    system = await walk.chat([{"role": "system", "content": "Be brief."}, *USER])
    assert told.prompt_token_ids == system.prompt_token_ids


async def test_null_is_absent_and_what_is_unknown_is_named(walk: Walk) -> None:
    names = ("stop", "seed", "n", "logit_bias", "top_p", "response_format", "tools", "user", "max_tokens")
    body = {"model": "m", "messages": USER, "max_completion_tokens": 3, "stranger": 1, "store": False}
    async with walk.engine.session.post("/v1/chat/completions", json=body | dict.fromkeys(names)) as answer:
        assert answer.status == 200
        assert answer.headers["x-tollway-ignored"] == "stranger, store"
        assert (await answer.json())["usage"]["completion_tokens"] <= 3
    with pytest.raises(openai.BadRequestError) as refused:
        await walk.chat(extra_body={"guided_regex": "a"})
    assert (refused.value.param, refused.value.code) == ("guided_regex", "unsupported_parameter")


async def test_sampling(walk: Walk) -> None:
    """One seed, one answer; and every way to leave one token to choose from leaves the likeliest."""
    drawn = [await walk.ids(temperature=1.5, seed=seed) for seed in (3, 3, 4)]
    assert drawn[0] == drawn[1] != drawn[2]
    greedy = await walk.ids()
    assert await walk.ids(temperature=1.5, top_p=0) == greedy
    for narrow in ({"top_k": 1}, {"min_p": 1}):
        assert await walk.ids(temperature=1.5, extra_body=narrow) == greedy


async def test_salts_part_the_cache(walk: Walk) -> None:
    prompt = await walk.tokens(prompt=f"{PROMPT} every ship that passed. " * 5)
    cached = []
    for salt in ("a", "a", "b"):
        usage = (await walk.complete(prompt=prompt, extra_body={"cache_salt": salt})).usage
        cached.append(usage.prompt_tokens_details.cached_tokens)
    assert cached == [0, (len(prompt) - 1) // 16 * 16, 0]


async def test_embeddings(walk: Walk) -> None:
    made = walk.client.embeddings.create
    whole = await made(model="m", input=[PROMPT, "x"], encoding_format="float")
    short = await made(model="m", input=PROMPT, encoding_format="float", dimensions=8)
    body = {"model": "m", "input": PROMPT, "encoding_format": "base64"}
    async with walk.engine.session.post("/v1/embeddings", json=body) as answer:
        raw = (await answer.json())["data"][0]["embedding"]
    first = whole.data[0].embedding
    assert list(array("f", base64.b64decode(raw))) == pytest.approx(first, abs=1e-4)
    assert math.hypot(*first) == pytest.approx(1, abs=1e-4)
    scale = math.hypot(*first[:8])
    assert short.data[0].embedding == pytest.approx([value / scale for value in first[:8]], abs=1e-3)
