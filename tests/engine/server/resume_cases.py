"""Requests of every kind, to be cut at every token. A new way to read or to bound an answer is a row here.

Each is (name, path, body) for the tiny llama model with `answer_template`; streamed, and seeded where it samples.
`cases` has one of every kind, `mixed_cases` fifty of the five kinds that callers use most, drawn from a seed.
"""

from __future__ import annotations

import random
from typing import Any

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
Case = tuple[str, str, dict[str, Any]]

_QUESTIONS = ("The lamps", "Why do you write it all down?", "Prices of salt, größer", "The clock")

_SCHEMA = {
    "name": "berth",
    "schema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": "^[a-z ]{0,9}$"},
            "depth": {"type": "integer", "minimum": 1, "maximum": 99},
            "free": {"type": "boolean"},
        },
        "required": ["name", "depth", "free"],
        "additionalProperties": False,
    },
}
_TOOLS = [
    {
        "type": "function",
        "function": {"name": "get_weather", "parameters": _SCHEMA["schema"], "strict": True},
    },
    {"type": "function", "function": {"name": "now"}},
]

# Bodies beside messages or prompt. What the tiny model says is arbitrary, so stops are what is likely in any text.
_BOTH: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "seeded": {"seed": 11},
    "hot": {"seed": 12, "temperature": 1.8},
    "filtered": {"seed": 13, "top_p": 0.9, "top_k": 40, "min_p": 0.01},
    "stop": {"seed": 14, "stop": ["e", "th"]},
    "stop held back": {"seed": 15, "stop": ["a never", "e never", "t never", " never", "s never"]},
    "stop shown": {"seed": 16, "stop": ["i", "n"], "include_stop_str_in_output": True},
    "stop after min_tokens": {"seed": 17, "stop": ["e", "a", "o", " "], "min_tokens": 9},
    "end token": {"seed": 18, "logit_bias": {"4": 4.5}, "temperature": 1.2},
    "end token after min_tokens": {"seed": 19, "logit_bias": {"4": 7}, "min_tokens": 6},
    "stop token": {"seed": 20, "stop_token_ids": list(range(100, 128))},
    "ignore_eos": {"seed": 21, "logit_bias": {"4": 3}, "ignore_eos": True, "skip_special_tokens": False},
    "repetition": {"temperature": 0, "repetition_penalty": 1.4},
    "penalties": {"seed": 22, "presence_penalty": 0.9, "frequency_penalty": 1.3},
    "allowed": {"seed": 23, "allowed_token_ids": list(range(60, 90)), "frequency_penalty": 2},
    "half characters": {"seed": 24, "allowed_token_ids": list(range(190, 261)), "temperature": 1.5},
    "ids": {"seed": 25, "return_token_ids": True},
    "usage in every chunk": {
        "seed": 26,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    },
    "bad words": {"seed": 28, "bad_words": ["e", "the", "1"]},
    "regex": {"seed": 29, "structured_outputs": {"regex": "[a-f]{3,9}(-[0-9]{1,4})*"}},
    "choice": {"seed": 30, "structured_outputs": {"choice": ["the keeper", "the clock", "a bridge"]}},
    "two choices": {"seed": 27, "n": 2, "max_tokens": 8},
    "three choices with stops": {"seed": 51, "n": 3, "max_tokens": 8, "stop": ["e", " th", "s never"]},
}
_CHAT: dict[str, dict[str, Any]] = {
    "logprobs": {"seed": 30, "logprobs": True, "top_logprobs": 3},
    "logprobs of half characters": {
        "seed": 31,
        "logprobs": True,
        "allowed_token_ids": list(range(190, 261)),
        "stop": ["never"],
    },
    "logprobs and stop": {"seed": 32, "logprobs": True, "top_logprobs": 1, "stop": ["e", " the"]},
    "long system prompt": {"temperature": 0},
    "json schema": {
        "seed": 33,
        "response_format": {"type": "json_schema", "json_schema": _SCHEMA},
        "max_tokens": 24,
    },
    "json object": {"seed": 34, "response_format": {"type": "json_object"}, "temperature": 1.3},
    "required call": {"seed": 35, "tools": _TOOLS, "tool_choice": "required", "max_tokens": 24},
    "named call": {
        "seed": 36,
        "tools": _TOOLS,
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
        "max_tokens": 24,
        "temperature": 1.4,
    },
    "one call": {
        "seed": 37,
        "tools": _TOOLS,
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": 90,
    },
    "calls if it likes": {"seed": 38, "tools": _TOOLS},
    "reasoning": {"seed": 39, "chat_template_kwargs": {"think": True}},
    "reasoning, then json": {
        "seed": 43,
        "chat_template_kwargs": {"think": True},
        "response_format": {"type": "json_object"},
        "logprobs": True,
    },
    "two choices with calls": {"seed": 52, "n": 2, "tools": _TOOLS, "tool_choice": "required"},
    "two choices of a schema": {
        "seed": 53,
        "n": 2,
        "response_format": {"type": "json_schema", "json_schema": _SCHEMA},
    },
    "two choices with log-probabilities": {"temperature": 0, "n": 2, "max_tokens": 8, "logprobs": True},
}
_COMPLETIONS: dict[str, dict[str, Any]] = {
    "logprobs": {"seed": 40, "logprobs": 2},
    "logprobs of half characters": {"seed": 41, "logprobs": 0, "allowed_token_ids": list(range(190, 261))},
    "logprobs and penalties": {"seed": 42, "logprobs": 1, "presence_penalty": 1.5, "min_tokens": 3},
    "echo": {"seed": 44, "echo": True, "logprobs": 1},
    "grammar": {"seed": 46, "structured_outputs": {"grammar": 'root ::= "<" [a-z]+ ">" root?'}},
    "ids for a prompt": {"temperature": 0, "prompt": [0, 70, 71, 72, 99, 130]},
}


def cases() -> list[Case]:
    usage = {"stream": True, "max_tokens": 14, "stream_options": {"include_usage": True}}
    found: list[Case] = []
    for number, (name, body) in enumerate({**_BOTH, **_CHAT}.items()):
        messages = [{"role": "user", "content": _QUESTIONS[number % 4]}]
        if name == "long system prompt":
            messages.insert(0, {"role": "system", "content": "The keeper counts the lamps. " * 12})
        found.append((f"chat: {name}", CHAT, {"messages": messages, **usage, **body}))
    for number, (name, body) in enumerate({**_BOTH, **_COMPLETIONS}.items()):
        prompt = _QUESTIONS[(number + 1) % 4]
        found.append((f"completion: {name}", COMPLETIONS, {"prompt": prompt, **usage, **body}))
    # The same again without a usage chunk, and longer.
    found.append(("chat: long", CHAT, {**found[1][2], "stream_options": None, "max_tokens": 24}))
    found.append(("completion: long", COMPLETIONS, {**found[-2][2], "seed": 50, "max_tokens": 24}))
    found += [
        (f"{name}, no usage", path, {**body, "stream_options": None})
        for name, path, body in found
        if name in ("chat: stop", "completion: stop")
    ]
    return found


def mixed_cases(seed: int) -> list[Case]:
    """Ten each of: plain, stop string, tool call, JSON schema, seeded sampling."""
    draw = random.Random(seed)
    found: list[Case] = []
    for number in range(10):
        kinds: dict[str, dict[str, Any]] = {
            "plain": {"temperature": 0, "repetition_penalty": draw.uniform(1.1, 1.5)},
            "stop string": {"stop": _stops(draw), "include_stop_str_in_output": draw.random() < 0.3},
            "tool call": {"tools": _TOOLS, "tool_choice": draw.choice(_CHOICES)},
            "JSON schema": {"response_format": {"type": "json_schema", "json_schema": _SCHEMA}},
            "seeded sampling": {
                "top_p": draw.uniform(0.8, 1),
                "presence_penalty": draw.uniform(0, 1),
                "min_tokens": draw.randrange(9),
            },
        }
        for kind, body in kinds.items():
            fields = {
                "messages": [{"role": "user", "content": draw.choice(_QUESTIONS) * draw.randint(1, 6)}],
                "stream": True,
                "stream_options": {"include_usage": True} if draw.random() < 0.8 else None,
                "seed": draw.getrandbits(40),
                "temperature": draw.uniform(0.7, 1.6),
                "max_tokens": draw.randint(16, 48),
                "logprobs": draw.random() < 0.3,
            }
            found.append((f"{kind} {number}", CHAT, {**fields, **body}))
    return found


def _stops(draw: random.Random) -> list[str]:
    """What is likely in any text, and what is likely to begin there and not to end."""
    likely = draw.sample(["e", "th", "a", "s", " t", "1", "\n"], 2)
    return [*likely, *(f"{letter} never" for letter in draw.sample("aeinost", 3))]


_CHOICES: list[Any] = ["required", {"type": "function", "function": {"name": "get_weather"}}]
