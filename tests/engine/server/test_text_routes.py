"""/tokenize and /detokenize through HTTP, in vLLM's shapes. (That long texts leave the loop free: test_openai_routes.)"""

from __future__ import annotations

from typing import Any

import pytest

from engine.server import text_routes
from engine.server.control import CoreDown
from tests.engine.server.conftest import API_KEY, MODEL, Server

USER: list[Any] = [{"role": "user", "content": "The sea"}]
TOKENIZE_ROWS: list[tuple[dict[str, Any], str, str]] = [
    ({}, "prompt", "Missing required parameter"),
    ({"prompt": 5}, "prompt", "expected a string"),
    ({"messages": []}, "messages", "expected 1 to 8192 elements"),
    ({"messages": USER, "tools": {}}, "tools", "expected an array"),
    ({"prompt": "a", "add_special_tokens": 1}, "add_special_tokens", "expected a boolean"),
    ({"messages": USER, "add_generation_prompt": 1}, "add_generation_prompt", "expected a boolean"),
    ({"messages": USER, "continue_final_message": 1}, "continue_final_message", "expected a boolean"),
    ({"messages": USER, "chat_template_kwargs": 1}, "chat_template_kwargs", "expected an object"),
    ({"prompt": "a", "return_token_strs": "x"}, "return_token_strs", "expected a boolean"),
    ({"messages": USER, "chat_template": "x"}, "chat_template", "the operator sets the template"),
    ({"messages": USER, "documents": [{}]}, "documents", "not supported"),
    ({"prompt": "a", "model": 5}, "model", "expected a string"),
]
DETOKENIZE_ROWS: list[tuple[dict[str, Any], str, str]] = [
    ({}, "tokens", "Missing required parameter"),
    ({"tokens": "a"}, "tokens", "expected an array"),
    ({"tokens": [1, "a"]}, "tokens[1]", "expected an integer"),
    ({"tokens": [-1]}, "tokens[0]", "between 0 and"),
    ({"tokens": [512]}, "tokens", "this model has 512 tokens"),
    ({"tokens": [1], "model": 5}, "model", "expected a string"),
]


async def post(server: Server, path: str, **body: Any) -> tuple[int, Any, str]:
    """Status, document, and what was ignored."""
    async with server.session(API_KEY) as session, session.post(path, json=body) as answer:
        return answer.status, await answer.json(), answer.headers["x-tollway-ignored"]


async def test_tokenize_and_back(server: Server) -> None:
    status, found, _ = await post(
        server, "/tokenize", model=MODEL, prompt="The sea 世", return_token_strs=True
    )
    assert status == 200
    assert found.keys() == {"count", "max_model_len", "tokens", "token_strs"}
    assert found["count"] == len(found["tokens"]) == len(found["token_strs"])
    assert found["max_model_len"] == 1024
    assert found["token_strs"][0] == "<|begin_of_text|>"
    _, back, _ = await post(server, "/detokenize", model=MODEL, tokens=found["tokens"])
    assert back == {"prompt": "<|begin_of_text|>The sea 世"}
    assert (await post(server, "/detokenize", tokens=[]))[1] == {"prompt": ""}


async def test_special_tokens_of_a_text(server: Server) -> None:
    """Added unless they are not wanted, and never doubled."""
    tokens = [
        (await post(server, "/tokenize", prompt=prompt, add_special_tokens=special))[1]["tokens"]
        for prompt, special in (("hi", True), ("hi", None), ("<|begin_of_text|>hi", True), ("hi", False))
    ]
    assert tokens[0] == tokens[1] == tokens[2] == [0, *tokens[3]]


async def test_a_conversation_has_the_tokens_of_its_completion(server: Server) -> None:
    begun = [*USER, {"role": "assistant", "content": "is"}]
    for fields in (
        {"messages": USER},
        {"messages": USER, "add_generation_prompt": False},
        {"messages": begun, "continue_final_message": True, "add_generation_prompt": False},
        {"messages": USER, "chat_template_kwargs": {"bos_token": "x"}},
        {"messages": USER, "add_special_tokens": True},
    ):
        status, found, _ = await post(server, "/tokenize", **fields)
        assert (status, found["token_strs"]) == (200, None)
        await post(server, "/v1/chat/completions", model=MODEL, max_tokens=1, **fields)
        assert server.core.seen[-1].prompt_token_ids == found["tokens"]


async def test_without_effect_is_named_and_a_foreign_model_not_found(server: Server) -> None:
    for path, body in (("/tokenize", {"prompt": "a"}), ("/detokenize", {"tokens": [5]})):
        status, _, ignored = await post(server, path, **body, surprise=1, mm_processor_kwargs={}, gone=None)
        assert (status, ignored) == (200, "surprise, mm_processor_kwargs")
        status, document, _ = await post(server, path, **body, model="other")
        assert (status, document["error"]["code"]) == (404, "model_not_found")
        assert (await post(server, path, **body, model="alias"))[0] == 200


@pytest.mark.parametrize(("path", "rows"), [("/tokenize", TOKENIZE_ROWS), ("/detokenize", DETOKENIZE_ROWS)])
async def test_refused(server: Server, path: str, rows: list[tuple[dict[str, Any], str, str]]) -> None:
    """Each field has a row."""
    table = text_routes.TOKENIZE_FIELDS if path == "/tokenize" else text_routes.DETOKENIZE_FIELDS
    assert {param.split("[")[0] for _, param, _ in rows} >= table.keys()
    for body, param, says in rows:
        status, document, _ = await post(server, path, **body)
        assert (status, document["error"]["param"]) == (400, param)
        assert says in document["error"]["message"]


async def test_a_text_needs_no_core_to_come_back(server: Server) -> None:
    """But how long a prompt may be is for the core to say."""
    server.tell(CoreDown("for this test"))
    await server.until(lambda: server.services.bridge.ready is None)
    assert (await post(server, "/detokenize", tokens=[5]))[0] == 200
    assert (await post(server, "/tokenize", prompt="a"))[0] == 503
