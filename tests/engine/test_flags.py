"""Flags of `serve`: one per setting, vLLM's spelling, keys from the environment."""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from engine.config import GROUPS, ConfigError
from engine.flags import add_flags, check_files, parse
from tests.tidy.tree import ROOT


def test_plain() -> None:
    config = parse(
        [
            *("/models/m.gguf", "--served-model-name", "a", "b", "--port", "81", "--api-key", "k1"),
            *("--api-key", "k2", "--internal-key", "ik", "--journal-dir", "/j", "--max-model-len", "100"),
            *("--api-workers", "2", "--drain-grace-s", "0.5", "--no-enable-prefix-caching"),
            *("--dtype", "float32", "--enforce-eager"),
        ]
    )
    assert (config.model.model, config.model.served_model_name) == ("/models/m.gguf", ("a", "b"))
    assert (config.server.port, config.server.api_key, config.server.internal_key) == (81, ("k1", "k2"), "ik")
    assert (config.server.api_server_workers, config.server.drain_grace_s) == (2, 0.5)
    assert (config.cache.enable_prefix_caching, config.device.enforce_eager) == (False, True)
    assert config.model.max_model_len == 100


@pytest.mark.parametrize("flag", ["--api-workers", "--workers", "--api-server-count", "--api-server-workers"])
def test_spellings_of_workers(flag: str) -> None:
    assert parse(["m", flag, "3"]).server.api_server_workers == 3


@pytest.mark.parametrize(
    ("spelt", "meant"), [("half", "float16"), ("float", "float32"), ("bfloat16", "bfloat16")]
)
def test_spellings_of_types(spelt: str, meant: str) -> None:
    assert parse(["m", "--dtype", spelt]).model.dtype == meant


def test_every_setting_has_a_flag() -> None:
    for kind in GROUPS.values():
        for entry in fields(kind):
            with pytest.raises(SystemExit) as caught:
                parse(["m", f"--{entry.name.replace('_', '-')}", "--nothing-like-this"])
            assert caught.value.code == 2


def test_every_flag_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "--max-num-seqs INT Requests that run at once; None: 256 on a GPU, 16 on a CPU." in shown
    assert "--port INT Port to listen on; 0: any free one. (default: 8000)" in shown
    unexplained = [action.dest for action in parser._actions if not action.help]
    assert unexplained == []


def test_model_as_flag_wins() -> None:
    assert parse(["--model", "x"]).model.model == "x"
    with pytest.raises(ConfigError, match="model is required"):
        parse([])


def test_keys_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOLLWAY_ENGINE_API_KEY", "a,b")
    monkeypatch.setenv("TOLLWAY_ENGINE_INTERNAL_KEY", "ik")
    config = parse(["m"])
    assert (config.server.api_key, config.server.internal_key) == (("a", "b"), "ik")
    assert parse(["m", "--internal-key", "own"]).server.internal_key == "own"


@pytest.mark.parametrize(
    "flags", [["--port", "x"], ["--unknown", "1"], ["--dtype", "int3"], ["--max-num", "1"]]
)
def test_refused(flags: list[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["m", *flags])


def test_ranges_are_checked() -> None:
    with pytest.raises(ConfigError, match="port"):
        parse(["m", "--port", "70000"])


def test_files_that_flags_name_are_looked_at_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "broken.jinja").write_text("{% if %}", encoding="utf-8")
    (tmp_path / "fine.jinja").write_text("{{ messages }}", encoding="utf-8")
    here = str(tmp_path)
    for flags, says in (
        (["--tokenizer", f"{here}/no"], "--tokenizer must be"),
        (["--generation-config", here], "with generation_config.json; got"),
        (["--generation-config", "atuo"], "must be auto, none or a directory"),
        (["--chat-template", f"{here}/no.jinja"], "--chat-template must be a template or a file"),
        (["--chat-template", f"{here}/broken.jinja"], "does not compile"),
        (["--chat-template", "{% if %}"], "does not compile"),
    ):
        with pytest.raises(ConfigError, match=says):
            check_files(parse([here, *flags]))
    (tmp_path / "generation_config.json").write_text("{}", encoding="utf-8")
    for flags in (
        ["--generation-config", here, "--chat-template", f"{here}/fine.jinja", "--tokenizer", here],
        ["--generation-config", "none", "--chat-template", "{{ messages }}"],
        ["--generation-config", "vllm"],
        [],
    ):
        config = parse([here, *flags])
        check_files(config)
        assert config.model.generation_config in (here, "none", "vllm", "auto")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--modle", "x"], "--modle is not known: did you mean --model?"),
        (["--model", "m", "--port", "many"], "--port"),
        (["--model", "m", "--dtype", "float8"], "--dtype"),
        (
            ["--model", "/nowhere/at/all"],
            "--model must be a file or directory on this machine; /nowhere/at/all",
        ),
    ],
)
def test_a_mistyped_command_is_one_sentence(flags: list[str], says: str) -> None:
    command = [sys.executable, "-m", "engine", "serve", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2, "the sentence is not looked for behind all the flags"
