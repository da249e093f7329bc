"""What requests ask for, through HTTP down to a model that computes. (With a scripted core: test_openai_routes.)"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.server.conftest import MODEL, Server, running_server
from tests.models import write_tiny_llama

PROMPT = (
    "The keeper of the lighthouse wrote down every ship that passed, the hour, the wind and its flag. " * 2
)
USER: list[Any] = [{"role": "user", "content": PROMPT}]


@pytest.fixture(scope="module")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture
async def real(tiny_llama: Path, tmp_path: Path) -> AsyncIterator[Server]:
    async with running_server(tiny_llama, tmp_path / "journal", real_core=True) as server:
        yield server


async def complete(server: Server, **fields: Any) -> Any:
    """The whole answer, as a document."""
    body = {"model": MODEL, "prompt": PROMPT, "max_tokens": 12, "temperature": 0, **fields}
    async with server.session() as session, session.post("/v1/completions", json=body) as answer:
        document = await answer.json()
        assert answer.status == 200, document
        return document


async def chat(server: Server, messages: list[Any], **fields: Any) -> Any:
    body = {"model": MODEL, "messages": messages, "max_tokens": 12, "temperature": 0, **fields}
    async with server.session() as session, session.post("/v1/chat/completions", json=body) as answer:
        document = await answer.json()
        assert answer.status == 200, document
        return document


async def test_n_answers_share_the_prompts_pages_and_differ_by_seed(real: Server) -> None:
    """Duty engine-14: n answers also at temperature 0, streamed or not; child i draws with seed + i."""
    client = real.client()
    greedy = await client.chat.completions.create(
        model=MODEL, messages=USER, n=3, temperature=0, max_tokens=12
    )
    assert [choice.index for choice in greedy.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in greedy.choices}) == 1
    load = real.services.bridge.load
    assert greedy.usage is not None
    prompt_tokens = greedy.usage.prompt_tokens
    assert load.prefix_queries == 3 * prompt_tokens
    assert load.prefix_hits == 2 * ((prompt_tokens - 1) // 16 * 16)
    drawn: dict[str, Any] = {
        "model": MODEL,
        "messages": USER,
        "seed": 7,
        "max_tokens": 12,
        "temperature": 1.0,
    }
    whole = await client.chat.completions.create(**drawn, n=3)
    streamed, ends = {0: "", 1: "", 2: ""}, {0: 0, 1: 0, 2: 0}
    async for chunk in await client.chat.completions.create(**drawn, n=3, stream=True):
        (choice,) = chunk.choices
        streamed[choice.index] += choice.delta.content or ""
        ends[choice.index] += choice.finish_reason is not None
    assert [choice.message.content for choice in whole.choices] == list(streamed.values())
    assert ends == {0: 1, 1: 1, 2: 1}
    for index, text in streamed.items():
        alone = await client.chat.completions.create(**drawn | {"seed": 7 + index})
        assert alone.choices[0].message.content == text
    assert len(set(streamed.values())) == 3


async def test_an_answer_scores_as_it_was_generated(real: Server) -> None:
    """Log-probabilities of an answer, of its echo, and as `prompt_logprobs` are the same numbers."""
    first = (await complete(real, logprobs=2, return_token_ids=True))["choices"][0]
    ids, length = first["prompt_token_ids"] + first["token_ids"], len(first["prompt_token_ids"])
    scored = await complete(real, prompt=ids, echo=True, max_tokens=0, logprobs=2, prompt_logprobs=1)
    assert scored["usage"]["completion_tokens"] == 0
    (choice,) = scored["choices"]
    lines = choice["logprobs"]
    assert lines["token_logprobs"][length:] == pytest.approx(first["logprobs"]["token_logprobs"], abs=1e-3)
    assert lines["tokens"][length:] == first["logprobs"]["tokens"]
    for echoed, said in zip(lines["top_logprobs"][length:], first["logprobs"]["top_logprobs"], strict=True):
        assert echoed == pytest.approx(said, abs=1e-3)
    for entry, token, value in zip(choice["prompt_logprobs"], ids, lines["token_logprobs"], strict=True):
        if entry is not None:
            assert entry[str(token)]["logprob"] == pytest.approx(value)
    ranks = [
        entry[str(token)]["rank"]
        for entry, token in zip(choice["prompt_logprobs"], ids, strict=True)
        if entry
    ]
    assert ranks[length - 1 :] == [1] * len(first["token_ids"]), "greedy"
    again = await complete(real, prompt=ids, echo=True, max_tokens=0, logprobs=2, prompt_logprobs=1)
    assert again["choices"][0]["logprobs"] == lines, "whatever the cache holds by now"


async def test_the_second_turn_finds_the_answer_of_the_first(real: Server) -> None:
    """Pages that were filled while decoding count, also the answer's own."""
    # Letters that no merge joins, so that the answer's text has the tokens it was made of.
    tokenizer = real.services.text.tokenizer
    letters = [tokenizer.encode(char, add_special_tokens=False)[0] for char in "QXZJ"]
    asked: dict[str, Any] = {"max_tokens": 48, "allowed_token_ids": letters, "presence_penalty": 1}
    first = await chat(real, USER, **asked)
    answer = first["choices"][0]["message"]["content"]
    assert len(answer) == 48
    turns = [*USER, {"role": "assistant", "content": answer}, {"role": "user", "content": "Why?"}]
    second = await chat(real, turns)
    known = first["usage"]["prompt_tokens"] + 48
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached == (known - 1) // 16 * 16
    assert cached > first["usage"]["prompt_tokens"] + 16
    events = real.services.bridge.load.prefix_hits
    assert events == cached


async def test_bad_words_do_not_appear(real: Server) -> None:
    """A word of several tokens, which the answer contained; its beginning may still appear."""
    plain = (await complete(real, return_token_ids=True))["choices"][0]
    tokenizer = real.services.text.tokenizer
    found = None
    for begin in range(1, 9):
        ids = plain["token_ids"][begin : begin + 2]
        raw = b"".join(map(tokenizer.token_bytes, ids))
        word = raw.decode("utf-8", "replace")
        if word.strip() == word and tokenizer.encode(word, add_special_tokens=False) == ids:
            found = word, ids
            break
    assert found is not None, "the tiny model says something else now"
    word, ids = found
    without = (await complete(real, return_token_ids=True, bad_words=[word]))["choices"][0]
    pairs = list(zip(without["token_ids"], without["token_ids"][1:], strict=False))
    assert tuple(ids) not in pairs
    assert without["token_ids"][: begin + 1] == plain["token_ids"][: begin + 1]


async def test_masks_and_biases_and_ends(real: Server) -> None:
    plain = (await complete(real, return_token_ids=True))["choices"][0]["token_ids"]
    only = (await complete(real, return_token_ids=True, allowed_token_ids=[70, 71]))["choices"][0]
    assert set(only["token_ids"]) <= {70, 71}
    pushed = (await complete(real, return_token_ids=True, logit_bias={"99": 100}))["choices"][0]
    assert pushed["token_ids"] == [99] * 12
    stopped = (await complete(real, return_token_ids=True, stop_token_ids=[plain[4]]))["choices"][0]
    end = plain.index(plain[4])
    assert (stopped["token_ids"], stopped["finish_reason"]) == (plain[: end + 1], "stop")
    assert stopped["stop_reason"] == plain[4]
    late = (await complete(real, return_token_ids=True, logit_bias={"1": 100}, min_tokens=5))["choices"][0]
    assert len(late["token_ids"]) == 6
    assert late["token_ids"][-1] == 1
    going = (await complete(real, return_token_ids=True, logit_bias={"1": 100}, ignore_eos=True))["choices"][
        0
    ]
    assert going["token_ids"] == [1] * 12
    penalised = await complete(
        real, return_token_ids=True, logit_bias={"99": 100}, frequency_penalty=2, max_tokens=60
    )
    assert len(set(penalised["choices"][0]["token_ids"])) > 1


async def test_beginnings_are_never_doubled(real: Server) -> None:
    """A text that brings its own token, one that does not, and a template that writes it."""
    ids = [
        (await complete(real, prompt=prompt, return_token_ids=True, max_tokens=1))["choices"][0][
            "prompt_token_ids"
        ]
        for prompt in ("hi", "<|begin_of_text|>hi")
    ]
    assert ids[0] == ids[1]
    assert ids[0].count(0) == 1
    asked = await chat(real, USER, return_token_ids=True, max_tokens=1)
    assert asked["prompt_token_ids"].count(0) == 1


async def test_flags_of_text(tiny_llama: Path, tmp_path: Path) -> None:
    """`--generation-config`, `--chat-template` and `--tokenizer`, each from elsewhere, down to the answer."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "generation_config.json").write_text(
        '{"eos_token_id": [99], "temperature": 0.0, "max_new_tokens": 5}', encoding="utf-8"
    )
    (other / "tokenizer.json").write_bytes((tiny_llama / "tokenizer.json").read_bytes())
    async with running_server(
        tiny_llama,
        tmp_path / "journal",
        real_core=True,
        generation_config=str(other),
        tokenizer=str(other),
        chat_template="{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}",
    ) as server:
        body = {"model": MODEL, "messages": USER, "return_token_ids": True}
        async with server.session() as session:
            async with session.post("/v1/chat/completions", json=body) as answer:
                first = await answer.json()
            async with session.post("/v1/chat/completions", json=body) as answer:
                second = await answer.json()
            async with session.post(
                "/v1/chat/completions", json=body | {"logit_bias": {"99": 100}}
            ) as answer:
                ended = await answer.json()
        assert first["choices"] == second["choices"], "greedy by default"
        assert (first["usage"]["completion_tokens"], first["choices"][0]["finish_reason"]) == (5, "length")
        assert (ended["choices"][0]["token_ids"], ended["choices"][0]["finish_reason"]) == ([99], "stop")
        text = b"".join(map(server.services.text.tokenizer.token_bytes, first["prompt_token_ids"]))
        assert text.decode() == f"[user] {PROMPT}\n"
