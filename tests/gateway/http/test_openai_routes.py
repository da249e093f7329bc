"""The data plane through the unmodified `openai` client."""

from __future__ import annotations

from tests.fakes.engine import FakeEngine
from tests.harness import SERVED, Gateway

MESSAGES = [{"role": "user", "content": "one two three"}]


async def test_chat(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    answer = await gateway.client(tenant).chat.completions.create(model=SERVED, messages=MESSAGES)
    assert answer.model == SERVED
    assert answer.choices[0].message.content == "one two three"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 3)
    [event] = await gateway.events(1)
    assert (event["status"], event["tenant_id"], event["served_model"]) == ("ok", tenant.id, SERVED)
    assert event["amount_nanousd"] == 3 * 100 + 3 * 1000
