"""The generation endpoints through HTTP, read by the `openai` package in strict mode."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from engine.text.tokenizer import Tokenizer
from tests.engine.server.conftest import API_KEY, MODEL, Server
from tests.fakes.core import Script

USER: list[Any] = [{"role": "user", "content": "The sea"}]


def ids(server: Server, text: str) -> tuple[int, ...]:
    return tuple(server.services.text.tokenizer.encode(text, add_special_tokens=False))


async def test_chat(server: Server) -> None:
    tokens = ids(server, "Hello there")
    server.core.script(Script(tokens, cached_tokens=3))
    answer = await server.client().chat.completions.create(model=MODEL, messages=USER, seed=3)
    assert answer.id.startswith("chatcmpl-")
    assert (answer.object, answer.model) == ("chat.completion", MODEL)
    choice = answer.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("Hello there", "stop")
    assert answer.usage is not None
    assert answer.usage.completion_tokens == len(tokens) + 1
    assert answer.usage.prompt_tokens == len(server.core.seen[0].prompt_token_ids)
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 3
    prompt = server.services.text.tokenizer.encode(
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nThe sea<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        add_special_tokens=False,
    )
    assert server.core.seen[0].prompt_token_ids == prompt


async def test_chat_stream_equals_chat(server: Server) -> None:
    text = "Grüße, 世界 🙂!"
    server.core.script(*[Script(ids(server, text))] * 2)
    client = server.client()
    whole = await client.chat.completions.create(model=MODEL, messages=USER)
    chunks = [
        chunk
        async for chunk in await client.chat.completions.create(
            model=MODEL, messages=USER, stream=True, stream_options={"include_usage": True}
        )
    ]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert all(chunk.choices[0].delta.role is None for chunk in chunks[1:-1])
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks[:-1]]
    assert "".join(pieces) == text == whole.choices[0].message.content
    assert not any("�" in piece for piece in pieces)
    reasons = [chunk.choices[0].finish_reason for chunk in chunks[:-1]]
    assert reasons == [None] * (len(reasons) - 1) + ["stop"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1
    assert all(chunk.usage is None for chunk in chunks[:-1])


async def test_completion_and_stream(server: Server) -> None:
    text = "and the lamp was trimmed"
    server.core.script(*[Script(ids(server, text))] * 2)
    client = server.client()
    whole = await client.completions.create(model="alias", prompt="At dusk", max_tokens=50)
    assert (whole.choices[0].text, whole.choices[0].finish_reason, whole.model) == (text, "stop", "alias")
    # Lenient: the package's type forbids the null finish_reason that OpenAI's own stream has.
    lenient = server.client(strict=False)
    stream = await lenient.completions.create(model=MODEL, prompt="At dusk", max_tokens=50, stream=True)
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in chunks) == text
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "stop"
    assert server.core.seen[0].prompt_token_ids[0] == server.services.text.tokenizer.token_id(
        "<|begin_of_text|>"
    )


async def test_completion_prompts_and_n(server: Server) -> None:
    """prompts × n choices in order; prompts counted once each; seeds differ by the child's index."""
    names = ["a", "b", "c", "d"]
    server.core.script(*[Script(ids(server, name)) for name in names])
    answer = await server.client().completions.create(model=MODEL, prompt=["x", "y y"], n=2, seed=10)
    assert [(choice.index, choice.text) for choice in answer.choices] == list(enumerate(names))
    assert [add.sampling.seed for add in server.core.seen] == [10, 11, 10, 11]
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == sum(len(add.prompt_token_ids) for add in server.core.seen[::2])
    assert answer.usage.completion_tokens == 8


async def test_token_id_prompts(server: Server) -> None:
    client = server.client()
    await client.completions.create(model=MODEL, prompt=[7, 8], max_tokens=1)
    await client.completions.create(model=MODEL, prompt=[[7, 8], [9]], max_tokens=1)
    assert [add.prompt_token_ids for add in server.core.seen] == [[7, 8], [7, 8], [9]]


async def test_streamed_choices_interleave(server: Server) -> None:
    server.core.script(Script(ids(server, "abc")), Script(ids(server, "wxyz")))
    stream = await server.client().chat.completions.create(model=MODEL, messages=USER, n=2, stream=True)
    texts, roles, ends = {0: "", 1: ""}, {0: 0, 1: 0}, {0: 0, 1: 0}
    async for chunk in stream:
        choice = chunk.choices[0]
        texts[choice.index] += choice.delta.content or ""
        roles[choice.index] += choice.delta.role is not None
        ends[choice.index] += choice.finish_reason is not None
    assert texts == {0: "abc", 1: "wxyz"}
    assert roles == ends == {0: 1, 1: 1}


async def test_undrawn_seeds_differ(server: Server) -> None:
    await server.client().completions.create(model=MODEL, prompt=["x", "x"], max_tokens=1)
    first, second = [add.sampling.seed for add in server.core.seen]
    assert first != second
    assert 0 <= first < 2**63


async def test_sampling_reaches_the_core(server: Server) -> None:
    await server.client().chat.completions.create(
        model=MODEL,
        messages=USER,
        temperature=0.5,
        top_p=0,
        presence_penalty=1,
        frequency_penalty=-1,
        logit_bias={"5": 2},
        max_completion_tokens=7,
        seed=-1,
        logprobs=True,
        top_logprobs=2,
        extra_body={
            "top_k": -1,
            "min_p": 0.1,
            "repetition_penalty": 1.1,
            "min_tokens": 2,
            "ignore_eos": True,
            "stop_token_ids": [9],
            "allowed_token_ids": [1, 2],
            "priority": -3,
        },
    )
    assert server.core.seen[0].priority == -3
    got = server.core.seen[0].sampling
    assert (got.temperature, got.top_p, got.top_k, got.min_p) == (0.5, 1e-6, 0, 0.1)
    assert (got.repetition_penalty, got.presence_penalty, got.frequency_penalty) == (1.1, 1, -1)
    assert (got.logit_bias, got.stop_token_ids, got.allowed_token_ids) == ({5: 2.0}, (9,), (1, 2))
    assert (got.max_tokens, got.min_tokens, got.ignore_eos, got.num_logprobs) == (7, 2, True, 2)
    assert got.seed == 2**63 - 1


async def test_chat_logprobs(server: Server) -> None:
    tokens = ids(server, "hé")
    server.core.script(*[Script(tokens)] * 2)
    client = server.client()
    whole = await client.chat.completions.create(
        model=MODEL, messages=USER, logprobs=True, top_logprobs=2, max_tokens=9
    )
    logprobs = whole.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert b"".join(bytes(entry.bytes or ()) for entry in logprobs.content) == "hé".encode()
    assert [len(entry.top_logprobs) for entry in logprobs.content] == [2] * len(tokens)
    assert logprobs.content[0].logprob == -0.5
    stream = await client.chat.completions.create(
        model=MODEL, messages=USER, logprobs=True, top_logprobs=2, max_tokens=9, stream=True
    )
    streamed: list[Any] = []
    async for chunk in stream:
        found = chunk.choices[0].logprobs
        streamed += (found.content or []) if found else []
    assert [entry.model_dump() for entry in streamed] == [entry.model_dump() for entry in logprobs.content]


async def test_completion_logprobs(server: Server) -> None:
    server.core.script(Script(ids(server, "ab cd")), Script(ids(server, "x")))
    client = server.client()
    answer = await client.completions.create(model=MODEL, prompt="p", logprobs=3)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    tokens = logprobs.tokens or []
    assert "".join(tokens) == "ab cd"
    assert logprobs.text_offset == [sum(map(len, tokens[:index])) for index in range(len(tokens))]
    assert logprobs.top_logprobs is not None
    assert all(1 <= len(entry) <= 4 for entry in logprobs.top_logprobs)
    one = (await client.completions.create(model=MODEL, prompt="p", logprobs=0)).choices[0].logprobs
    assert one is not None
    assert one.top_logprobs == [{"x": -0.5}]


async def test_stop_string(server: Server) -> None:
    """Never leaked; the tokens behind it are overrun and not counted."""
    server.core.script(Script(ids(server, "one STOP two") + ids(server, " and so on") * 99, overrun=1))
    answer = await server.client().chat.completions.create(model=MODEL, messages=USER, stop=" STOP")
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("one", "stop")
    assert answer.choices[0].model_extra == {"stop_reason": " STOP"}
    assert server.core.aborted == [server.core.seen[0].request_id]
    async with server.session() as session, session.get("/internal/usage") as reply:
        end = (await reply.json())["records"][-1]
    assert answer.usage is not None
    assert end["completion_tokens"] == answer.usage.completion_tokens
    assert end["overrun_tokens"] >= 1
    assert end["finish_reason"] == "stop"


async def test_return_token_ids(server: Server) -> None:
    tokens = ids(server, "abc")
    server.core.script(*[Script(tokens)] * 3)
    async with server.session(API_KEY) as session:
        body = {"model": MODEL, "messages": USER, "return_token_ids": True}
        async with session.post("/v1/chat/completions", json=body) as answer:
            document = await answer.json()
        assert document["choices"][0]["token_ids"] == [*tokens, 1]
        assert document["prompt_token_ids"] == server.core.seen[0].prompt_token_ids
        async with session.post("/v1/chat/completions", json={**body, "stream": True}) as answer:
            text = await answer.text()
        events = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]
        assert events[0]["prompt_token_ids"] == server.core.seen[0].prompt_token_ids
        assert [index for e in events for index in e["choices"][0].get("token_ids", [])] == [*tokens, 1]
        body = {"model": MODEL, "prompt": "p", "return_token_ids": True}
        async with session.post("/v1/completions", json=body) as answer:
            assert (await answer.json())["choices"][0]["token_ids"] == [*tokens, 1]


async def test_continuous_usage(server: Server) -> None:
    server.core.script(Script(ids(server, "ab cd")))
    stream = await server.client().chat.completions.create(
        model=MODEL,
        messages=USER,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    )
    usages = [chunk.usage async for chunk in stream]
    counts = [usage.completion_tokens for usage in usages if usage is not None]
    assert len(counts) == len(usages), "in every chunk"
    assert counts == sorted(counts)
    assert len(counts) > 2


async def test_continue_final_message_and_template_kwargs(server: Server) -> None:
    messages = [*USER, {"role": "assistant", "content": "The sea is"}]
    await server.client().chat.completions.create(
        model=MODEL,
        messages=messages,
        max_tokens=1,
        extra_body={"continue_final_message": True, "add_generation_prompt": False},
    )
    tokenizer = server.services.text.tokenizer
    prompt = b"".join(tokenizer.token_bytes(index) for index in server.core.seen[0].prompt_token_ids)
    assert prompt.decode().endswith("assistant<|end_header_id|>\n\nThe sea is")
    with pytest.raises(openai.BadRequestError, match="chat_template_kwargs"):
        await server.client().chat.completions.create(
            model=MODEL, messages=USER, extra_body={"chat_template_kwargs": {"messages": []}}
        )


async def test_typed_errors(server: Server) -> None:
    client = server.client()
    with pytest.raises(openai.NotFoundError) as missing:
        await client.chat.completions.create(model="other", messages=USER)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.AuthenticationError):
        await server.client("wrong").models.list()
    with pytest.raises(openai.BadRequestError) as bad:
        await client.chat.completions.create(model=MODEL, messages=USER, temperature=3)
    assert (bad.value.param, bad.value.code) == ("temperature", "invalid_value")
    with pytest.raises(openai.BadRequestError) as unsupported:
        await client.chat.completions.create(model=MODEL, messages=USER, extra_body={"use_beam_search": True})
    assert unsupported.value.code == "unsupported_parameter"
    assert server.core.seen == []


async def test_too_long(server: Server) -> None:
    client = server.client()
    for values in ({"prompt": [5] * 1024}, {"prompt": [5] * 1000, "max_tokens": 25}):
        with pytest.raises(openai.BadRequestError) as caught:
            await client.completions.create(model=MODEL, **values)
        assert caught.value.code == "context_length_exceeded"
    await client.completions.create(model=MODEL, prompt=[5] * 1000, max_tokens=24)
    async with server.session(API_KEY) as session:
        body = {"model": MODEL, "messages": USER}
        server.core.script(Script(ids(server, "a")))
        async with session.post("/v1/chat/completions", json=body) as answer:
            assert answer.status == 200
    last = server.core.seen[-1]
    assert last.sampling.max_tokens == 1024 - len(last.prompt_token_ids)


@pytest.mark.parametrize(
    ("values", "param"),
    [
        ({"prompt": ""}, None),
        ({"prompt": [512]}, "prompt"),
        ({"prompt": [[1], [600]]}, "prompt[1]"),
        ({"prompt": "a", "logit_bias": {"512": 1}}, "logit_bias"),
        ({"prompt": "a", "extra_body": {"stop_token_ids": [512]}}, "stop_token_ids"),
        ({"prompt": "a", "extra_body": {"allowed_token_ids": [9999]}}, "allowed_token_ids"),
        ({"prompt": "", "extra_body": {"add_special_tokens": False}}, "prompt"),
    ],
)
async def test_ids_and_empty_prompts(server: Server, values: dict[str, Any], param: str | None) -> None:
    client = server.client()
    if param is None:
        await client.completions.create(model=MODEL, max_tokens=1, **values)
        assert len(server.core.seen[0].prompt_token_ids) == 1
        return
    with pytest.raises(openai.BadRequestError) as caught:
        await client.completions.create(model=MODEL, **values)
    assert caught.value.param == param


async def test_hopeless_texts_are_not_tokenised(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters alone tell that they do not fit; the limit of the gateway counts too."""
    longest = server.services.text.tokenizer.max_chars_per_token
    monkeypatch.setattr(Tokenizer, "encode", lambda *_, **__: pytest.fail("tokenised"))
    text = "a" * (1023 * longest + 1)
    bodies = {
        "/v1/completions": {"model": MODEL, "prompt": ["b", text]},
        "/v1/chat/completions": {"model": MODEL, "messages": [{"role": "user", "content": text}]},
        "/tokenize": {"prompt": text + "a" * longest},
    }
    async with server.session() as session:
        for path, body in bodies.items():
            async with session.post(path, json=body) as answer:
                error = (await answer.json())["error"]
                assert (answer.status, error["code"]) == (400, "context_length_exceeded")
                assert error["param"] == ("messages" if "messages" in body else "prompt")
        few = {"x-max-prompt-tokens": "1"}
        body = {"model": MODEL, "prompt": "a" * (longest + 1)}
        async with session.post("/v1/completions", json=body, headers=few) as answer:
            assert (await answer.json())["error"]["code"] == "context_length_exceeded"


async def test_models(server: Server) -> None:
    client = server.client()
    assert [model.id async for model in client.models.list()] == [MODEL, "alias"]
    assert (await client.models.retrieve("alias")).id == "alias"
    server.services.served_model_names = ("org/tiny",)
    assert (await client.models.retrieve("org/tiny")).id == "org/tiny"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("other")
