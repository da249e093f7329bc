"""Everything about text that comes with a checkpoint: tokenizer, chat template, end tokens, default sampling.

Reads a Hugging Face directory or a GGUF file once, at the start of an API process (`load_assets`); the core
process asks only for the end tokens (`eos_token_ids`). Later sources win over earlier ones: GGUF metadata or
config files, then what the operator names on the command line. Knows no requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from engine.gguf import GGUFFile
from engine.text.chat_template import GEMMA_TEMPLATE, ChatTemplate
from engine.text.reasoning import choose_parser
from engine.text.tokenizer import Tokenizer, TokenizerError, load_tokenizer
from engine.text.tools.formats import choose_format
from engine.text.tools.parser import CallFormat

_END_OF_TURN = ("<end_of_turn>", "<|eot_id|>", "<|eom_id|>", "<|im_end|>")
_SPECIAL_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token")
_GGUF_SPECIALS = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
_SAMPLING_KEYS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
_CONTROL = 3


@dataclass(frozen=True, slots=True)
class TextSources:
    """Where to look. `chat_template` is a file or the template itself; `generation_config` is "auto",
    "none", or a directory."""

    model: Path
    tokenizer: Path | None = None
    chat_template: str | None = None
    generation_config: str = "auto"
    tool_call_parser: str = "auto"
    """A name of `FORMATS`; "auto": what the chat template speaks; "none"."""
    reasoning_parser: str = "auto"
    """A name of `UNOPENED`, "auto" or "none"."""


@dataclass(frozen=True, slots=True)
class TextAssets:
    tokenizer: Tokenizer
    chat_template: ChatTemplate | None
    sampling_defaults: Mapping[str, float] = field(default_factory=dict)
    """Sampling fields that the checkpoint's generation_config.json sets."""
    call_format: CallFormat | None = None
    """How the model calls tools; None: not known."""
    reasoning_parser: str | None = None
    """Name of the way in which its reasoning begins; None: reasoning is not told apart."""


def load_assets(sources: TextSources, cache_dir: Path, now: Callable[[], datetime]) -> TextAssets:
    place = sources.tokenizer or sources.model
    tokenizer = load_tokenizer(place, cache_dir)
    found = _from_gguf(place) if place.suffix == ".gguf" else _from_directory(place)
    specials, template = found
    if sources.chat_template is not None:
        template = _text_or_file(sources.chat_template)
    if template is None and tokenizer.token_id("<start_of_turn>") is not None:
        template = GEMMA_TEMPLATE
    return TextAssets(
        tokenizer=tokenizer,
        chat_template=None if template is None else ChatTemplate(template, specials, now),
        sampling_defaults=_sampling_defaults(sources),
        call_format=choose_format(sources.tool_call_parser, template or ""),
        reasoning_parser=choose_parser(sources.reasoning_parser, template or ""),
    )


def eos_token_ids(model: Path) -> tuple[int, ...]:
    """The tokens that end an answer, ascending: the checkpoint's own list, and Gemma's end of turn."""
    ids = _gguf_eos(model) if model.suffix == ".gguf" else _directory_eos(model)
    return tuple(sorted(ids))


def _gguf_eos(model: Path) -> set[int]:
    metadata = GGUFFile(model).metadata
    keys = [f"tokenizer.ggml.{name}_token_id" for name in ("eos", "eot", "eom")]
    ids = {metadata.int_of(key) for key in keys if key in metadata}
    if "tokenizer.ggml.tokens" in metadata:
        types = metadata.numbers_of("tokenizer.ggml.token_type")
        names = metadata.strings_of("tokenizer.ggml.tokens")
        # Converters record one end token; chat checkpoints end turns with another.
        ids |= {
            index for index, name in enumerate(names) if name in _END_OF_TURN and types[index] == _CONTROL
        }
    return ids


def _directory_eos(model: Path) -> set[int]:
    ids: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        config = _read_json(model / name)
        found = config.get("eos_token_id", config.get("text_config", {}).get("eos_token_id"))
        if found is not None:
            ids = set(found) if isinstance(found, list) else {found}
            break
    added = _read_json(model / "tokenizer_config.json").get("added_tokens_decoder", {})
    ids |= {int(index) for index, token in added.items() if token.get("content") == "<end_of_turn>"}
    return ids


def _from_gguf(model: Path) -> tuple[dict[str, str], str | None]:
    metadata = GGUFFile(model).metadata
    tokens = metadata.strings_of("tokenizer.ggml.tokens")
    specials = {}
    for name, short in _GGUF_SPECIALS.items():
        key = f"tokenizer.ggml.{short}_token_id"
        if key in metadata:
            specials[name] = tokens[metadata.int_of(key)]
    return specials, metadata.str_of("tokenizer.chat_template", "") or None


def _from_directory(place: Path) -> tuple[dict[str, str], str | None]:
    folder = place if place.is_dir() else place.parent
    config = _read_json(folder / "tokenizer_config.json")
    older = _read_json(folder / "special_tokens_map.json")
    specials = {}
    for name in _SPECIAL_NAMES:
        token = config.get(name) or older.get(name)
        if token is not None:
            specials[name] = token["content"] if isinstance(token, dict) else token
    separate = folder / "chat_template.jinja"
    if separate.is_file():
        return specials, separate.read_text(encoding="utf-8")
    return specials, _pick_template(config.get("chat_template"))


def _pick_template(value: Any) -> str | None:
    """A template, or a list of named ones of which `default` counts."""
    if isinstance(value, list):
        named = {entry["name"]: entry["template"] for entry in value}
        value = named.get("default")
    return value if isinstance(value, str) else None


def _sampling_defaults(sources: TextSources) -> dict[str, float]:
    if sources.generation_config == "none":
        return {}
    given = sources.generation_config
    folder = sources.model if given == "auto" else Path(given)
    config = _read_json(folder / "generation_config.json") if folder.is_dir() else {}
    if config.get("do_sample") is False:
        return {}
    return {key: config[key] for key in _SAMPLING_KEYS if isinstance(config.get(key), int | float)}


def _text_or_file(value: str) -> str:
    """`--chat-template` takes a path or, recognised by its braces, a template."""
    if "{" in value:
        return value
    return Path(value).read_text(encoding="utf-8")


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TokenizerError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise TokenizerError(f"{path} does not hold an object")
    return content
