"""The command line of `python -m engine serve`: one flag per setting, in `vllm serve`'s spelling.

Made from the types of `engine.config`, where ranges and defaults live, so that a setting is declared once. Knows
no values' meaning.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

from engine.config import GROUPS, ConfigError, EngineConfig
from engine.vllm_flags import add_vllm_flags

ALIASES = {
    "quantization": ("-q",),
    "drain_timeout_s": ("--shutdown-timeout",),
    "api_server_workers": ("--api-workers", "--workers", "--api-server-count"),
    "kv_cache_memory_bytes": ("--kv-cache-memory",),
    "kv_offload_gib": ("--kv-offloading-size",),
}
VALUE_ALIASES = {"dtype": {"half": "float16", "float": "float32"}}
"""Setting → other spellings of its values."""
KEY_VARIABLES = {"api_key": "TOLLWAY_ENGINE_API_KEY", "internal_key": "TOLLWAY_ENGINE_INTERNAL_KEY"}
"""Where keys may stand instead, since command lines are visible to other users of the machine."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model_tag", nargs="?", metavar="MODEL", help="same as --model")
    for group, kind in GROUPS.items():
        section = parser.add_argument_group(group)
        hints, explained = get_type_hints(kind), _explanations(kind)
        for entry in fields(kind):
            names = [f"--{entry.name.replace('_', '-')}", *ALIASES.get(entry.name, ())]
            section.add_argument(
                *names,
                dest=entry.name,
                default=argparse.SUPPRESS,
                help=explained[entry.name].replace("%", "%%") + _default(entry.default),
                **_reading(hints[entry.name], VALUE_ALIASES.get(entry.name, {})),
            )
    add_vllm_flags(parser)


def config_of(arguments: argparse.Namespace) -> EngineConfig:
    """Raises `ConfigError` for values out of range."""
    flags = {name: value for name, value in vars(arguments).items() if name in _SETTINGS}
    if getattr(arguments, "model_tag", None) and "model" not in flags:
        flags["model"] = arguments.model_tag
    for name, variable in KEY_VARIABLES.items():
        value = os.environ.get(variable)
        if value and name not in flags:
            flags[name] = value.split(",") if name == "api_key" else value
    return EngineConfig.from_flags(
        {name: tuple(value) if isinstance(value, list) else value for name, value in flags.items()}
    )


def check_files(config: EngineConfig) -> None:
    """Raises `ConfigError` if a file that the settings name is not there: better now than in a child's log."""
    # Here and below, where they are needed: `--help`, `bench` and the children start without them.
    from engine.server.pooler import pooler_settings
    from engine.text.assets import NO_DEFAULTS

    for flag, place in (("--model", config.model.model), ("--tokenizer", config.model.tokenizer)):
        if place is not None and not Path(place).exists():
            raise ConfigError(f"{flag} must be a file or directory on this machine; {place} does not exist")
    defaults = config.model.generation_config
    if defaults not in ("auto", *NO_DEFAULTS) and not (Path(defaults) / "generation_config.json").is_file():
        raise ConfigError(
            f"--generation-config must be auto, none or a directory with generation_config.json; got {defaults}"
        )
    pooler_settings(Path(config.model.model), config.model.pooler_config)
    if config.model.chat_template is not None:
        _check_template(config.model.chat_template)


def _check_template(value: str) -> None:
    from engine.text.assets import template_text
    from engine.text.chat_template import ChatTemplate, ChatTemplateError

    try:
        ChatTemplate(template_text(value), {}, lambda: datetime.fromtimestamp(0, UTC))
    except OSError as error:
        raise ConfigError(f"--chat-template must be a template or a file that holds one: {error}") from error
    except ChatTemplateError as error:
        raise ConfigError(f"--chat-template: {error}") from error


def unknown_flag(parser: argparse.ArgumentParser, flag: str) -> str:
    """What to say of a flag that does not exist: the nearest one that does."""
    known = [name for action in parser._actions for name in action.option_strings]
    near = difflib.get_close_matches(flag.split("=")[0], known, n=1)
    return f"{flag} is not known" + (f": did you mean {near[0]}?" if near else "; see --help")


def dashed(arguments: Sequence[str]) -> list[str]:
    """`--max_model_len=5`, as older command lines spell it, as `--max-model-len=5`."""
    found = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        found.append(name.replace("_", "-") + equals + value if argument.startswith("--") else argument)
    return found


class FlagParser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, not behind forty lines of all the flags there are."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n{self.prog} --help lists the flags.\n")


def parse(arguments: Sequence[str]) -> EngineConfig:
    parser = FlagParser(prog="python -m engine serve", allow_abbrev=False)
    add_flags(parser)
    return config_of(parser.parse_args(dashed(arguments)))


def whole_number(text: str) -> int:
    """`4096`, `8k` (8,000), `8K` (8,192), `25.6k`. Raises ValueError, which argparse explains."""
    scale = _SCALES.get(text[-1:])
    if scale is None:
        return int(text)
    number = Fraction(text[:-1]) * scale
    if number.denominator != 1:
        raise ValueError(text)
    return number.numerator


_SCALES = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_SETTINGS = frozenset(entry.name for kind in GROUPS.values() for entry in fields(kind))


def _explanations(kind: type[Any]) -> dict[str, str]:
    """Setting → the text below it in the source, on one line. Raises KeyError for a setting without one."""
    (group,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(group, ast.ClassDef)
    found = {}
    for entry, text in pairwise(group.body):
        match entry, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                found[name] = " ".join(words.split())
    return found


def _default(value: object) -> str:
    """What is taken without the flag, where that says more than "nothing"."""
    if value is MISSING or value is None or value == () or isinstance(value, bool):
        return ""
    return f" (default: {value})"


def _reading(hint: Any, aliases: Mapping[str, str]) -> dict[str, Any]:
    """argparse's keywords for a setting's type."""
    if get_origin(hint) is Literal:
        return {"choices": get_args(hint), "type": lambda text: aliases.get(text, text)}
    if get_origin(hint) is tuple:
        return {"nargs": "+", "action": "extend", "metavar": "VALUE"}
    plain = next((kind for kind in (get_args(hint) or (hint,)) if kind is not type(None)), str)
    if plain is bool:
        return {"action": argparse.BooleanOptionalAction}
    if plain is int:
        return {"type": whole_number, "metavar": "INT"}
    return {"type": plain, "metavar": plain.__name__.upper()}
