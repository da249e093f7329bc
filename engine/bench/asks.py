"""The mixed requests of a soak, each with what its answer must hold. Pure; knows no HTTP."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "count": {"type": "integer"},
        "kind": {"enum": ["large", "small"]},
    },
    "required": ["name", "count", "kind"],
    "additionalProperties": False,
}
_GRAMMARS: tuple[dict[str, Any], ...] = (
    {"response_format": {"type": "json_schema", "json_schema": {"name": "part", "schema": _SCHEMA}}},
    {"structured_outputs": {"regex": "[a-f]{3,9}-[0-9]{4}"}},
    {"structured_outputs": {"choice": ["north", "south", "east"]}},
)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to /completions, and what is known of its answer."""

    body: dict[str, Any]
    leaves_after: int | None = None
    """Lines of a stream after which the caller hangs up; 0: before the first."""

    def faults(self, usage: dict[str, Any], choices: Sequence[dict[str, Any]]) -> list[str]:
        """What the answer has wrong. `choices`: finish_reason, text and logprobs of each, whole or put together."""
        body = self.body
        prompt, choices_asked = len(body["prompt"]), body.get("n", 1)
        if len(choices) != choices_asked:
            return [f"{len(choices)} choices instead of {choices_asked}"]
        faults = []
        if usage.get("prompt_tokens") != prompt:
            faults.append(f"{usage.get('prompt_tokens')} prompt tokens instead of {prompt}")
        made = usage.get("completion_tokens", 0)
        if body["ignore_eos"] and made != choices_asked * body["max_tokens"]:
            faults.append(f"{made} tokens instead of {choices_asked} times {body['max_tokens']}")
        for choice in choices:
            faults += self._of_choice(choice)
        logprobs = [
            value for choice in choices for value in (choice.get("logprobs") or {}).get("token_logprobs", [])
        ]
        # The token that ends a text is counted, but is no part of it.
        shown = made - sum(choice["finish_reason"] == "stop" for choice in choices)
        if body.get("logprobs") is not None and (
            len(logprobs) != shown or any(value > 0 for value in logprobs)
        ):
            faults.append(
                f"{len(logprobs)} log-probabilities of {shown} tokens, the largest {max(logprobs, default=0)}"
            )
        return faults

    def _of_choice(self, choice: dict[str, Any]) -> list[str]:
        if choice["finish_reason"] not in ("stop", "length"):
            return [f"finished for {choice['finish_reason']!r}"]
        if "response_format" not in self.body or choice["finish_reason"] != "stop":
            return []
        try:
            found = json.loads(choice["text"])
        except ValueError:
            return [f"no JSON: {choice['text'][:80]!r}"]
        right = isinstance(found, dict) and found.keys() == _SCHEMA["properties"].keys()
        return [] if right else [f"not of the schema: {choice['text'][:80]!r}"]


@dataclass(frozen=True, slots=True)
class Sizes:
    longest_prompt: int = 6000
    longest_answer: int = 500
    vocab: int = 100_000
    """Token ids of prompts are below it."""


def draw_ask(draw: random.Random, model: str, sizes: Sizes) -> Ask:
    """One request: lengths even on a logarithmic scale, every feature now and then."""
    prompt = _tokens(draw, _length(draw, sizes.longest_prompt), sizes.vocab)
    if draw.random() < 0.2:  # a beginning that others have too, so that pages are shared
        shared = _tokens(random.Random(draw.randrange(8)), sizes.longest_prompt // 10, sizes.vocab)
        prompt = shared[: len(prompt)] + prompt[len(shared) :]
    body: dict[str, Any] = {
        "model": model,
        "prompt": prompt,
        "max_tokens": _length(draw, sizes.longest_answer),
        "ignore_eos": True,
        "seed": draw.randrange(2**31),
        "temperature": draw.choice((0, 0, 0.7, 1.0)),
    }
    if draw.random() < 0.1:
        body["n"] = draw.randint(2, 4)
    if draw.random() < 0.15:
        body["logprobs"] = draw.randint(0, 5)
    if draw.random() < 0.15:
        body |= {"top_p": 0.9, "top_k": 40, "min_p": 0.01}
    if draw.random() < 0.1:
        body |= {"presence_penalty": 0.5, "frequency_penalty": 0.2, "repetition_penalty": 1.1}
    if draw.random() < 0.1:
        body |= draw.choice(_GRAMMARS) | {"ignore_eos": False}
    if draw.random() < 0.7:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    leaves = draw.random() < 0.15
    return Ask(body, _length(draw, sizes.longest_answer) - 1 if leaves else None)


def _tokens(draw: random.Random, count: int, vocab: int) -> list[int]:
    return [draw.randrange(vocab // 100, vocab) for _ in range(count)]


def _length(draw: random.Random, longest: int) -> int:
    return int(math.exp(draw.uniform(0, math.log(longest + 0.999))))
