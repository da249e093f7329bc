"""Which hidden states make an embedding: the flag, the checkpoint, the default."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.config import ConfigError
from engine.server.pooler import PoolerSettings, pooler_settings


def stored(folder: Path, **modes: bool) -> Path:
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 8, **modes}))
    return folder


def test_the_last_token_by_default(tmp_path: Path) -> None:
    assert pooler_settings(tmp_path, None) == PoolerSettings("last", True)
    assert pooler_settings(tmp_path / "model.gguf", None) == PoolerSettings("last", True)


def test_as_the_checkpoint_says(tmp_path: Path) -> None:
    folder = stored(tmp_path, pooling_mode_mean_tokens=True, pooling_mode_cls_token=False)
    assert pooler_settings(folder, None).kind == "mean"
    assert pooler_settings(folder, '{"pooling_type": "LAST"}').kind == "last"


def test_the_flag_in_both_spellings(tmp_path: Path) -> None:
    given = '{"seq_pooling_type": "mean", "use_activation": false}'
    assert pooler_settings(tmp_path, given) == PoolerSettings("mean", False)
    assert pooler_settings(tmp_path, '{"pooling_type": "MEAN", "normalize": true}').normalize


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("mean", "must be a JSON object"),
        ("[]", "must be a JSON object"),
        ('{"pooling_type": "CLS"}', "must be one of LAST, MEAN, got 'CLS'"),
        ('{"softmax": true}', "softmax=True is not known"),
        ('{"normalize": 1}', "normalize=1 is not known"),
    ],
)
def test_what_is_refused(tmp_path: Path, given: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("[", "\\[")):
        pooler_settings(tmp_path, given)


def test_a_checkpoint_that_pools_otherwise(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pooling_mode_cls_token is not served"):
        pooler_settings(stored(tmp_path, pooling_mode_cls_token=True), None)
