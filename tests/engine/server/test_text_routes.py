"""/tokenize and /detokenize through HTTP. (That long texts leave the loop free: test_openai_routes.)"""

from __future__ import annotations

from typing import Any

from tests.engine.server.conftest import API_KEY, MODEL, Server

USER: list[Any] = [{"role": "user", "content": "The sea"}]


async def test_tokenize_and_back(server: Server) -> None:
    async with server.session(API_KEY) as session:
        body: dict[str, Any] = {"model": MODEL, "prompt": "The sea 世", "return_token_strs": True}
        async with session.post("/tokenize", json=body) as answer:
            found = await answer.json()
        assert found["count"] == len(found["tokens"]) == len(found["token_strs"])
        assert found["max_model_len"] == 1024
        async with session.post("/detokenize", json={"tokens": found["tokens"][1:]}) as answer:
            assert (await answer.json()) == {"prompt": "The sea 世"}
        async with session.post("/tokenize", json={"messages": USER}) as answer:
            chat = await answer.json()
        assert chat["token_strs"] is None
        for path, bad in (("/tokenize", {}), ("/detokenize", {"tokens": [512]}), ("/detokenize", {})):
            async with session.post(path, json=bad) as answer:
                assert answer.status == 400
    await server.client().chat.completions.create(model=MODEL, messages=USER, max_tokens=1)
    assert server.core.seen[-1].prompt_token_ids == chat["tokens"]


async def test_tokenize_reads_tools(server: Server) -> None:
    async with server.session(API_KEY) as session:
        for tools, status in (([{"type": "function", "function": {"name": "f"}}], 200), ([{}], 400)):
            async with session.post("/tokenize", json={"messages": USER, "tools": tools}) as answer:
                assert answer.status == status
