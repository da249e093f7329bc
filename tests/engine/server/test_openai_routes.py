"""The two generation endpoints through HTTP, read by the `openai` package in strict mode."""

from __future__ import annotations

from tests.engine.server.conftest import MODEL, Server


async def test_chat(server: Server) -> None:
    answer = await server.client().chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "The sea"}], max_tokens=5, seed=3
    )
    print(answer)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 5
