"""Everything about text that comes with a checkpoint: tokenizer, chat template, end tokens, default sampling.

Reads a Hugging Face directory or a GGUF file once, at the start of an API process (`load_assets`); the core
process asks only for the end tokens (`eos_token_ids`). Later sources win over earlier ones: GGUF metadata or
config files, then what the operator names on the command line. Knows no requests.
"""

from __future__ import annotations

import json
import os
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
_SAMPLING_RANGES = {
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "top_k": (-1, 2**31 - 1),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (0.01, 10.0),
    "max_new_tokens": (1, 2**31 - 1),
}
"""What is taken from generation_config.json."""
NO_DEFAULTS = ("none", "vllm")
"""Values of `--generation-config` for OpenAI's defaults; the second is `vllm serve`'s."""
_CONTROL = 3


@dataclass(frozen=True, slots=True)
class TextSources:
    """Where to look. `chat_template` is a file or the template itself; `generation_config` is "auto" (the model's
    directory), one of `NO_DEFAULTS`, or a directory."""

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
    """Sampling fields that generation_config.json sets, and `max_new_tokens`, the longest answer of those who name
    no length."""
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
        template = template_text(sources.chat_template)
    if template is None and tokenizer.token_id("<start_of_turn>") is not None:
        template = GEMMA_TEMPLATE
    return TextAssets(
        tokenizer=tokenizer,
        chat_template=None if template is None else ChatTemplate(template, specials, now),
        sampling_defaults=_sampling_defaults(sources),
        call_format=choose_format(sources.tool_call_parser, template or ""),
        reasoning_parser=choose_parser(sources.reasoning_parser, template or ""),
    )


def default_cache_dir() -> Path:
    """For tokenizers built from models that lie on read-only storage."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tollway"


def eos_token_ids(model: Path, generation_config: str = "auto") -> tuple[int, ...]:
    """The tokens that end an answer, ascending: the checkpoint's own list, those that end a turn, and the list of a
    generation_config.json elsewhere."""
    ids = _gguf_eos(model) if model.suffix == ".gguf" else _directory_eos(model)
    if generation_config not in ("auto", *NO_DEFAULTS):
        ids |= _listed(_read_json(Path(generation_config) / "generation_config.json").get("eos_token_id"))
    return tuple(sorted(ids))


def template_text(value: str) -> str:
    """`--chat-template` takes a path or, recognised by its braces, a template. Raises `OSError`."""
    if "{" in value:
        return value
    return Path(value).read_text(encoding="utf-8")


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
            ids = _listed(found)
            break
    tokenizer = _read_json(model / "tokenizer_config.json")
    # A chat checkpoint's tokenizer names the token that ends a turn, even where its other files name the base's.
    ends = {"<end_of_turn>", _content(tokenizer.get("eos_token"))}
    added = tokenizer.get("added_tokens_decoder", {})
    return ids | {int(index) for index, token in added.items() if token.get("content") in ends}


def _listed(value: Any) -> set[int]:
    return set(value if isinstance(value, list) else [] if value is None else [value])


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
            specials[name] = _content(token)
    separate = folder / "chat_template.jinja"
    if separate.is_file():
        return specials, separate.read_text(encoding="utf-8")
    return specials, _pick_template(config.get("chat_template"))


def _content(token: Any) -> Any:
    """A special token is written as its text or as an object around it."""
    return token.get("content") if isinstance(token, dict) else token


def _pick_template(value: Any) -> str | None:
    """A template, or a list of named ones of which `default` counts."""
    if isinstance(value, list):
        named = {entry["name"]: entry["template"] for entry in value}
        value = named.get("default")
    return value if isinstance(value, str) else None


def _sampling_defaults(sources: TextSources) -> dict[str, float]:
    if sources.generation_config in NO_DEFAULTS:
        return {}
    given = sources.generation_config
    folder = sources.model if given == "auto" else Path(given)
    config = _read_json(folder / "generation_config.json") if folder.is_dir() else {}
    drawn = config.get("do_sample") is not False
    found = {
        name: config[name]
        for name in _SAMPLING_RANGES
        if config.get(name) is not None and (drawn or name in ("repetition_penalty", "max_new_tokens"))
    }
    for name, value in found.items():
        low, high = _SAMPLING_RANGES[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise TokenizerError(
                f"{folder / 'generation_config.json'}: {name} must be within {low} and {high}"
            )
    return found


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
