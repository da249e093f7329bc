"""Structured output on a real engine with a tiny random model: the harshest test of a grammar is a model without sense."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import openai
import psutil
import pytest

from tests.engine.test_core_process import Engine, serving
from tests.models import write_tiny_llama

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "size": {"type": "integer", "minimum": -5, "maximum": 40},
        "kind": {"enum": ["a", 7, None]},
    },
    "required": ["name", "size", "kind"],
    "additionalProperties": False,
}
TREE = {
    "type": "object",
    "properties": {
        "day": {"type": "string", "format": "date"},
        "code": {"type": "string", "pattern": "^[A-Z]{2}\\d$"},
        "left": {"$ref": "#/$defs/leaf"},
        "kinds": {"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["day", "kinds"],
    "$defs": {
        "leaf": {
            "type": "object",
            "properties": {"deeper": {"anyOf": [{"$ref": "#/$defs/leaf"}, {"type": "null"}]}},
            "required": ["deeper"],
        }
    },
}
LEFT = {"grammar": 'root ::= "(" root ")" | "x"'}
HOSTILE: dict[str, dict[str, Any]] = {
    "not an object": {"json_object": False},
    "empty": {"json": ""},
    "no schema": {"json": {"type": "strange"}},
    "no regex": {"regex": "("},
    "no grammar": {"grammar": "root ::= missing"},
    "deep": {"grammar": "root ::= " + "(" * 30_000 + '"a"' + ")" * 30_000},
    "ambiguous": {"grammar": 'root ::= root root root | "a" | ""'},
}


async def _ask(engine: Engine, wanted: dict[str, Any], **fields: Any) -> Any:
    values = {"max_tokens": 400, "temperature": 1.0, "seed": 11, **fields}
    return await engine.complete(**values, extra_body={"structured_outputs": wanted})


async def test_every_kind_of_grammar(tmp_path: Path) -> None:
    write_tiny_llama(tmp_path / "model")
    async with serving(tmp_path / "model") as engine:
        whole = await _ask(engine, {"json": SCHEMA}, n=3)
        found = [json.loads(choice.text) for choice in whole.choices]
        assert all(list(each) == ["name", "size", "kind"] and -5 <= each["size"] <= 40 for each in found)
        assert {choice.finish_reason for choice in whole.choices} == {"stop"}
        stream = await _ask(engine, {"json": SCHEMA}, stream=True)
        streamed = "".join([chunk.choices[0].text async for chunk in stream])
        assert streamed == whole.choices[0].text, "the same seed, streamed"
        again = await _ask(engine, {"json": SCHEMA}, n=3)
        assert [choice.text for choice in again.choices] == [choice.text for choice in whole.choices]
        answer = await engine.client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "The sea"}],
            max_tokens=400,
            seed=3,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "thing", "strict": True, "schema": SCHEMA},
            },
        )
        assert json.loads(answer.choices[0].message.content or "").keys() == SCHEMA["properties"].keys()
        matched = (await _ask(engine, {"regex": "[a-z]{3,5}@(sea|sky)"}, logprobs=2)).choices[0]
        assert re.fullmatch("[a-z]{3,5}@(sea|sky)", matched.text)
        assert matched.logprobs.tokens
        assert (await _ask(engine, {"choice": ["yes", "no way"]})).choices[0].text in ("yes", "no way")
        assert re.fullmatch(r"\(*x\)*", (await _ask(engine, LEFT)).choices[0].text)
        with pytest.raises(openai.BadRequestError, match="no token can follow"):
            await engine.complete(
                extra_body={"structured_outputs": {"regex": "[0-9]+"}, "allowed_token_ids": [300, 301]}
            )
        await _check_many_at_once(engine)


async def _check_many_at_once(engine: Engine) -> None:
    checks: list[tuple[dict[str, Any], Callable[[str], object]]] = [
        ({"json": SCHEMA}, lambda text: jsonschema.validate(json.loads(text), SCHEMA) is None),
        ({"json": TREE}, lambda text: jsonschema.validate(json.loads(text), TREE) is None),
        (LEFT, lambda text: re.fullmatch(r"\(*x\)*", text)),
        ({"choice": ["ebb", "flood"]}, lambda text: text in ("ebb", "flood")),
    ]
    checks += [
        ({"regex": f"[a-z]{{{count}}}-\\d+?x"}, re.compile(f"[a-z]{{{count}}}-[0-9]+x").fullmatch)
        for count in range(1, 13)
    ]
    asked = [(wanted, check, seed) for seed in range(2) for wanted, check in checks]
    answers = await asyncio.gather(
        *(_ask(engine, wanted, seed=seed, max_tokens=900) for wanted, _, seed in asked)
    )
    assert len(answers) == 32
    for (wanted, check, seed), answer in zip(asked, answers, strict=True):
        choice = answer.choices[0]
        assert choice.finish_reason == "stop", (wanted, seed, choice.text)
        assert check(choice.text), (wanted, seed, choice.text)


async def test_hostile_grammars_disturb_nobody(tmp_path: Path) -> None:
    """Duty engine-5: a bad grammar fails its own request, and the engine serves the others as if it had not come."""
    write_tiny_llama(tmp_path / "model")
    async with serving(tmp_path / "model") as engine:

        async def others() -> list[str]:
            plain = [engine.complete(seed=seed, temperature=1.0, max_tokens=60) for seed in range(4)]
            held = [
                _ask(engine, wanted, seed=5) for wanted in ({"json": SCHEMA}, LEFT, {"regex": "[a-f]{9}"})
            ]
            return [answer.choices[0].text for answer in await asyncio.gather(*plain, *held)]

        alone = await others()
        status = await engine.status()
        refused = [
            asyncio.create_task(_ask(engine, wanted, stream=stream))
            for wanted in HOSTILE.values()
            for stream in (False, True)
        ]
        assert await others() == alone
        for outcome in await asyncio.gather(*refused, return_exceptions=True):
            assert isinstance(outcome, openai.BadRequestError), outcome
            assert (outcome.param or "").startswith("structured_outputs")
        assert await others() == alone
        assert (await engine.status())["epoch"] == status["epoch"], "nothing died"
        assert psutil.Process(status["core_pid"]).is_running()
        with pytest.raises(openai.BadRequestError):
            await _ask(engine, HOSTILE["no regex"])
        assert (await _ask(engine, LEFT)).choices[0].text
