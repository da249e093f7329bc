"""/tokenize and /detokenize: between a text, or a conversation, and its tokens.

Each handler is: parse, check, convert. Knows no generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from engine.server.admission import chat_prompt, encode
from engine.server.app import Route
from engine.server.caller import Caller
from engine.server.errors import engine_unavailable, invalid, missing, model_not_found
from engine.server.exchange import Exchange
from engine.server.field_tables import CHAT_FIELDS, UNSUPPORTED_IN_CHAT
from engine.server.fields import Field, flag, read_fields, refuse_unsupported, text, token_ids, without_effect
from engine.server.json_body import parse_json
from engine.server.messages import read_messages
from engine.server.services import Services

TOKENIZE_FIELDS = {
    "model": Field(text(256)),
    "prompt": Field(text(16 << 20)),
    "messages": Field(read_messages),
    "add_special_tokens": Field(flag),
    "add_generation_prompt": Field(flag, True),
    "continue_final_message": Field(flag, False),
    "chat_template_kwargs": CHAT_FIELDS["chat_template_kwargs"],
    "tools": CHAT_FIELDS["tools"],
    "return_token_strs": Field(flag, False),
}
DETOKENIZE_FIELDS = {"model": Field(text(256)), "tokens": Field(token_ids(1 << 22), required=True)}
REFUSED = {name: UNSUPPORTED_IN_CHAT[name] for name in ("chat_template", "documents")}


async def tokenize(services: Services, exchange: Exchange, caller: Caller) -> None:
    """Tokens of a text, or of a conversation through the chat template."""
    values = await _read_body(services, exchange, TOKENIZE_FIELDS)
    if services.bridge.ready is None:
        raise engine_unavailable()
    limit = services.bridge.ready.max_model_len
    if values["messages"] is not None:
        tokens = await chat_prompt(
            services,
            limit,
            values["messages"],
            add_generation_prompt=values["add_generation_prompt"],
            continue_final_message=values["continue_final_message"],
            add_special_tokens=bool(values["add_special_tokens"]),
            kwargs=values["chat_template_kwargs"],
            tools=[function.document for function in values["tools"]],
        )
    elif values["prompt"] is not None:
        prompt, special = values["prompt"], values["add_special_tokens"] is not False
        (tokens,) = await encode(services, limit, [prompt], "prompt", add_special_tokens=special)
    else:
        raise missing("prompt")
    document: dict[str, Any] = {
        "count": len(tokens),
        "max_model_len": limit,
        "tokens": tokens,
        "token_strs": None,
    }
    if values["return_token_strs"]:
        spell = services.text.tokenizer.token
        document["token_strs"] = await services.beside_loop(len(tokens), lambda: list(map(spell, tokens)))
    await exchange.reply(200, orjson.dumps(document))


async def detokenize(services: Services, exchange: Exchange, caller: Caller) -> None:
    tokens = (await _read_body(services, exchange, DETOKENIZE_FIELDS))["tokens"]
    tokenizer = services.text.tokenizer
    if tokens and max(tokens) >= tokenizer.vocab_size:
        raise invalid(f"Invalid value for 'tokens': this model has {tokenizer.vocab_size} tokens.", "tokens")
    raw = await services.beside_loop(len(tokens), lambda: b"".join(map(tokenizer.token_bytes, tokens)))
    await exchange.reply(200, orjson.dumps({"prompt": raw.decode("utf-8", "replace")}))


ROUTES = (
    Route("POST", "/tokenize", tokenize),
    Route("POST", "/detokenize", detokenize),
)


async def _read_body(services: Services, exchange: Exchange, table: Mapping[str, Field]) -> dict[str, Any]:
    """The fields of the table. As everywhere, those without effect are named, and a foreign model is not found."""
    raw = await exchange.body()

    def read() -> tuple[dict[str, Any], dict[str, Any]]:
        body = parse_json(raw)
        refuse_unsupported(body, REFUSED)
        return body, read_fields(body, table)

    body, values = await services.beside_loop(len(raw), read)
    if values["model"] not in (None, *services.served_model_names):
        raise model_not_found(values["model"])
    known = {*table, *REFUSED}
    exchange.name_ignored(without_effect(body, known))
    return values
