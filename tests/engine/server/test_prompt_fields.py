"""What a request may ask about its prompt, and of single tokens: through HTTP, with a scripted core."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import openai
import orjson
import pytest

from engine.server.admission import MAX_ALLOWED_IDS, MAX_PROMPT_LOGPROBS, MAX_PROMPT_TOKENS
from engine.server.control import CoreDown
from engine.text.chat_template import ChatTemplate
from tests.engine.server.conftest import API_KEY, INTERNAL_KEY, MODEL, Server
from tests.fakes.core import Script, ready

USER: list[Any] = [{"role": "user", "content": "The sea"}]


def ids(server: Server, text: str) -> tuple[int, ...]:
    return tuple(server.services.text.tokenizer.encode(text, add_special_tokens=False))


async def post(server: Server, path: str, key: str = API_KEY, **body: Any) -> Any:
    async with (
        server.session(key) as session,
        session.post(path, json={"model": MODEL, **body}) as answer,
    ):
        raw = await answer.read()
        assert answer.status == 200, raw
        if not body.get("stream"):
            return orjson.loads(raw)
        events = raw.decode().strip().split("\n\n")
        assert events[-1] == "data: [DONE]"
        return [orjson.loads(event.removeprefix("data: ")) for event in events[:-1]]


async def test_prompt_logprobs(server: Server) -> None:
    """vLLM's shape: beside the choices of a chat, in each choice of a completion; found once for all children."""
    server.core.script(*[Script(ids(server, "a"))] * 3)
    chat = await post(server, "/v1/chat/completions", messages=USER, prompt_logprobs=2, return_token_ids=True)
    first, *entries = chat["prompt_logprobs"]
    prompt = chat["prompt_token_ids"]
    assert first is None
    assert [next(iter(entry)) for entry in entries] == [str(token) for token in prompt[1:]]
    assert all(2 <= len(entry) <= 3 for entry in entries)
    spell = server.services.text.tokenizer.token_bytes
    assert entries[0][str(prompt[1])] == {
        "logprob": -0.5,
        "rank": 1,
        "decoded_token": spell(prompt[1]).decode("utf-8", "replace"),
    }
    completion = await post(server, "/v1/completions", prompt=[5, 6, 7], n=2, prompt_logprobs=0)
    for choice in completion["choices"]:
        assert [entry and list(entry) for entry in choice["prompt_logprobs"]] == [None, ["6"], ["7"]]
    assert [add.sampling.num_prompt_logprobs for add in server.core.seen] == [2, 0, None]
    with pytest.raises(openai.BadRequestError) as caught:
        await server.client().completions.create(
            model=MODEL, prompt="a", stream=True, extra_body={"prompt_logprobs": 1}
        )
    assert caught.value.param == "prompt_logprobs"


async def test_echo(server: Server) -> None:
    """Texts as they were sent, tokens as they spell, streamed or not."""
    tokens = ids(server, "The sea")
    server.core.script(*[Script(ids(server, "!"))] * 5)
    for stream in (False, True):
        answer = await post(
            server, "/v1/completions", prompt="The sea", echo=True, max_tokens=5, stream=stream
        )
        events = answer if stream else [answer]
        assert "".join(event["choices"][0]["text"] for event in events) == "The sea!"
    answer = await post(server, "/v1/completions", prompt=[[*tokens, 0], [7]], echo=True, max_tokens=5)
    spelt = server.services.text.tokenizer.token_bytes(7).decode("utf-8", "replace")
    assert [choice["text"] for choice in answer["choices"]] == ["The sea<|begin_of_text|>!", spelt + "!"]
    assert all(choice["logprobs"] is None for choice in answer["choices"])
    assert [add.sampling.num_prompt_logprobs for add in server.core.seen] == [None] * 4


async def test_echo_with_logprobs(server: Server) -> None:
    """The prompt's come first, and with `prompt_logprobs` beside it each is cut to its own count."""
    prompt = [0, *ids(server, "The sea")]
    server.core.script(*[Script(ids(server, "!!"))] * 3)
    asked: dict[str, Any] = {"prompt": "The sea", "echo": True, "logprobs": 1, "max_tokens": 5}
    choice = (await post(server, "/v1/completions", **asked, prompt_logprobs=0))["choices"][0]
    lines = choice["logprobs"]
    assert lines["token_logprobs"][0] is lines["top_logprobs"][0] is None
    assert lines["tokens"][0] == "<|begin_of_text|>"
    assert "".join(lines["tokens"][1:]) == choice["text"] == "The sea!!"
    assert len(lines["tokens"]) == len(prompt) + len(ids(server, "!!"))
    offsets = lines["text_offset"]
    assert [
        choice["text"][offset:].startswith(token)
        for offset, token in zip(offsets, lines["tokens"], strict=True)
    ][1:]
    assert offsets[:2] == [0, 0]
    assert [len(entry) for entry in choice["prompt_logprobs"][1:]] == [1] * (len(prompt) - 1)
    assert server.core.seen[0].sampling.num_prompt_logprobs == 1
    events = await post(server, "/v1/completions", **asked, stream=True, n=2)
    for index in (0, 1):
        parts = [e["choices"][0] for e in events if e["choices"][0]["index"] == index]
        joined: dict[str, list[Any]] = {}
        for part in parts:
            for name, values in (part["logprobs"] or {}).items():
                joined[name] = joined.get(name, []) + values
        assert joined == lines
        assert "".join(part["text"] for part in parts) == choice["text"]


async def test_echo_of_a_chat_is_the_answer_so_far(server: Server) -> None:
    server.core.script(*[Script(ids(server, " blue"))] * 3)
    begun = [*USER, {"role": "assistant", "content": "is"}]
    for stream in (False, True):
        answer = await post(
            server,
            "/v1/chat/completions",
            messages=begun,
            echo=True,
            stream=stream,
            continue_final_message=True,
            add_generation_prompt=False,
        )
        if stream:
            pieces = [event["choices"][0]["delta"].get("content", "") for event in answer]
            assert (pieces[0], "".join(pieces)) == ("is", "is blue")
        else:
            assert answer["choices"][0]["message"]["content"] == "is blue"
    plain = await post(server, "/v1/chat/completions", messages=USER, echo=True)
    assert plain["choices"][0]["message"]["content"] == " blue"


async def test_scoring_generates_nothing(server: Server) -> None:
    """`max_tokens` 0: the core's one token is overrun, neither shown nor billed, even if it is an end token."""
    server.core.script(Script((), cached_tokens=3), Script(ids(server, "x")), Script((), cached_tokens=3))
    asked: dict[str, Any] = {"prompt": "The sea", "echo": True, "max_tokens": 0, "logprobs": 0}
    answer = await post(server, "/v1/completions", INTERNAL_KEY, **asked)
    choice = answer["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("The sea", "length")
    assert len(choice["logprobs"]["tokens"]) == answer["usage"]["prompt_tokens"]
    assert answer["usage"]["completion_tokens"] == 0
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 3
    assert server.core.seen[0].sampling.max_tokens == 1
    async with server.session() as session, session.get("/internal/usage") as reply:
        end = (await reply.json())["records"][-1]
    assert (end["completion_tokens"], end["overrun_tokens"], end["finish_reason"]) == (0, 1, "length")
    scored = await post(server, "/v1/completions", prompt="The sea", max_tokens=0, prompt_logprobs=1)
    assert (scored["choices"][0]["text"], scored["choices"][0]["logprobs"]) == ("", None)
    events = await post(
        server, "/v1/completions", **asked, stream=True, stream_options={"include_usage": True}
    )
    assert [event["choices"][0]["text"] for event in events[:-1]] == ["The sea", ""]
    assert events[-2]["choices"][0]["finish_reason"] == "length"
    assert events[-1]["usage"]["completion_tokens"] == 0
    assert events[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] == 3


async def test_token_ids_of_completions(server: Server) -> None:
    tokens = ids(server, "abc")
    server.core.script(*[Script(tokens)] * 4)
    asked: dict[str, Any] = {"prompt": [[5, 6], [7]], "return_token_ids": True, "max_tokens": 9}
    whole = await post(server, "/v1/completions", **asked)
    assert [choice["prompt_token_ids"] for choice in whole["choices"]] == [[5, 6], [7]]
    assert [choice["token_ids"] for choice in whole["choices"]] == [[*tokens, 1]] * 2
    parts = [event["choices"][0] for event in await post(server, "/v1/completions", **asked, stream=True)]
    for index, prompt in enumerate([[5, 6], [7]]):
        mine = [part for part in parts if part["index"] == index]
        assert [part.get("prompt_token_ids") for part in mine] == [prompt] + [None] * (len(mine) - 1)
        assert [token for part in mine for token in part["token_ids"]] == [*tokens, 1]


async def test_bad_words_reach_the_core_as_tokens(server: Server) -> None:
    """As spelt at the beginning and behind a space; long ones are refused."""
    words = ["sea", " harbour "]
    await server.client().completions.create(
        model=MODEL, prompt="a", max_tokens=1, extra_body={"bad_words": words}
    )
    found = server.core.seen[0].sampling.bad_words
    assert set(found) == {ids(server, word) for word in ("sea", " sea", "harbour", " harbour")}
    for bad in (["\U0001f642" * 9], ["fine", "qzqzqzqzqzqzqzqzqzqz"]):
        with pytest.raises(openai.BadRequestError) as caught:
            await server.client().completions.create(model=MODEL, prompt="a", extra_body={"bad_words": bad})
        assert caught.value.param == "bad_words"
    spell = server.services.text.tokenizer.token_bytes
    single = next(t for t in range(300, 512) if ids(server, spell(t).decode().strip()) == (t,))
    word = spell(single).decode()
    with pytest.raises(openai.BadRequestError) as nothing_left:
        await server.client().completions.create(
            model=MODEL, prompt="a", extra_body={"bad_words": [word], "allowed_token_ids": [single]}
        )
    assert nothing_left.value.param == "allowed_token_ids"


async def test_log_probabilities_of_prompts_are_bounded(server: Server) -> None:
    """An answer of a million JSON objects would stop the loop for everybody."""
    prompt = [5] * 1000
    for extra, param in (
        ({"prompt_logprobs": 20}, "prompt_logprobs"),
        ({"echo": True, "logprobs": 20}, "echo"),
    ):
        n = MAX_PROMPT_LOGPROBS // (21 * len(prompt)) + 1
        with pytest.raises(openai.BadRequestError) as caught:
            await server.client().completions.create(
                model=MODEL, prompt=prompt, n=n, max_tokens=1, extra_body=extra
            )
        assert caught.value.param == param
    few = await server.client(strict=False).completions.create(
        model=MODEL, prompt=prompt, n=2, max_tokens=1, echo=True, logprobs=20
    )
    assert len(few.choices) == 2


async def test_special_tokens_of_a_chat_are_the_templates_business(server: Server) -> None:
    """... and never doubled if the caller asks for them again."""
    for special in (False, True, None):
        await post(server, "/v1/chat/completions", messages=USER, max_tokens=1, add_special_tokens=special)
    prompts = [add.prompt_token_ids for add in server.core.seen]
    assert prompts[0] == prompts[1] == prompts[2]
    assert prompts[0].count(0) == 1


async def test_reasoning_effort_is_the_templates_business(server: Server) -> None:
    """Where it knows the word; what the caller wrote into the template's variables himself wins."""

    async def ignored(**fields: Any) -> str:
        body = {"model": MODEL, "messages": USER, "max_tokens": 1, **fields}
        async with (
            server.session(API_KEY) as session,
            session.post("/v1/chat/completions", json=body) as answer,
        ):
            assert answer.status == 200
            return answer.headers["x-tollway-ignored"]

    assert await ignored(reasoning_effort="high") == "reasoning_effort"
    text = server.services.text
    template = ChatTemplate("{{ reasoning_effort or 'x' }}", {}, lambda: datetime.fromtimestamp(0, UTC))
    server.services.text = replace(text, chat_template=template)
    assert await ignored(reasoning_effort="high") == ""
    assert await ignored(reasoning_effort="low", chat_template_kwargs={"reasoning_effort": "max"}) == ""
    spelt = [text.tokenizer.encode(word, add_special_tokens=False) for word in ("high", "max")]
    assert [add.prompt_token_ids for add in server.core.seen[1:]] == spelt


async def test_allowed_tokens_of_all_answers_are_bounded_together(server: Server) -> None:
    """The core reads each answer's list between two steps of everybody."""
    fields: dict[str, Any] = {"model": MODEL, "prompt": ["a", "b"], "n": 128, "max_tokens": 1}
    each = MAX_ALLOWED_IDS // 256
    most = await server.client().completions.create(**fields, extra_body={"allowed_token_ids": [5] * each})
    assert len(most.choices) == 256
    with pytest.raises(openai.BadRequestError, match="in all answers") as caught:
        await server.client().completions.create(**fields, extra_body={"allowed_token_ids": [5] * (each + 1)})
    assert caught.value.param == "allowed_token_ids"


async def test_prompts_of_all_answers_are_bounded_together(server: Server) -> None:
    """Each answer carries its prompt to the core: 128 of a million tokens would be the end of it."""
    server.tell(CoreDown("for one with a longer context"))
    await server.until(lambda: server.services.bridge.ready is None)
    await server.new_core(ready("epoch-2", max_model_len=1 << 20))
    prompt, n = [5] * 200_000, MAX_PROMPT_TOKENS // 200_000 + 1
    body = {"model": MODEL, "prompt": prompt, "n": n, "max_tokens": 1}
    async with server.session(API_KEY) as session:
        raw = io.BytesIO(orjson.dumps(body))
        async with session.post("/v1/completions", data=raw) as answer:
            assert (answer.status, (await answer.json())["error"]["param"]) == (400, "n")
        raw = io.BytesIO(orjson.dumps(body | {"n": 2}))
        async with session.post("/v1/completions", data=raw) as answer:
            assert len((await answer.json())["choices"]) == 2
