"""How a model's embeddings are made of its hidden states: from --pooler-config, else as the checkpoint says.

Checkpoints of sentence encoders say it in `1_Pooling/config.json`; without a word from anybody it is the last token's
state, as decoders are trained to be embedders with. Read once at the start of an API process. Knows no requests.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.config import ConfigError
from engine.messages import PoolingKind

_KINDS: dict[str, PoolingKind] = {"LAST": "last", "MEAN": "mean"}
_STORED: dict[str, PoolingKind] = {"pooling_mode_lasttoken": "last", "pooling_mode_mean_tokens": "mean"}
_KIND_KEYS = ("pooling_type", "seq_pooling_type")
_LENGTH_KEYS = ("normalize", "use_activation")


@dataclass(frozen=True, slots=True)
class PoolerSettings:
    kind: PoolingKind = "last"
    normalize: bool = True
    """To length 1, as OpenAI's are."""


def pooler_settings(model: Path, given: str | None) -> PoolerSettings:
    """Raises `ConfigError` for what is no pooler's configuration, or for a kind that is not served."""
    kind, normalize = _stored_kind(model), True
    for name, value in _object(given).items():
        if name in _KIND_KEYS:
            kind = _KINDS.get(str(value).upper())
            if kind is None:
                raise ConfigError(f"pooler_config: {name} must be one of {', '.join(_KINDS)}, got {value!r}")
        elif name in _LENGTH_KEYS and isinstance(value, bool):
            normalize = value
        else:
            known = ", ".join((*_KIND_KEYS, *_LENGTH_KEYS))
            raise ConfigError(f"pooler_config: {name}={value!r} is not known; known are {known}")
    return PoolerSettings(kind or "last", normalize)


def _object(given: str | None) -> dict[str, Any]:
    if given is None:
        return {}
    try:
        found = json.loads(given)
    except ValueError as error:
        raise ConfigError(f"pooler_config must be a JSON object: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"pooler_config must be a JSON object, got {given[:80]}")
    return found


def _stored_kind(model: Path) -> PoolingKind | None:
    path = model / "1_Pooling" / "config.json"
    if not path.is_file():
        return None
    modes = {name for name, value in _object(path.read_text(encoding="utf-8")).items() if value is True}
    chosen = sorted(name for name in modes if name.startswith("pooling_mode_"))
    if len(chosen) != 1 or chosen[0] not in _STORED:
        raise ConfigError(f"{path}: {', '.join(chosen) or 'no pooling'} is not served; see --pooler-config")
    return _STORED[chosen[0]]
