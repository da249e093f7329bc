"""vLLM's flags: taken or refused with a sentence, in the table of the docs, and in command lines as people have them."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import openai
import pytest

from engine.config import GROUPS
from engine.flags import ALIASES, add_flags, config_of, parse, whole_number
from engine.vllm_flags import VLLM_FLAGS, VllmFlag, table
from tests.engine.test_core_process import serving
from tests.models import write_tiny_llama
from tests.tidy.tree import ROOT

COMMAND_LINES = {
    "one GPU": "m --host 0.0.0.0 --port 8000 --dtype auto --max-model-len 8192 --gpu-memory-utilization 0.95",
    "helm": "m --trust-remote-code --enable-chunked-prefill --max-num-seqs 128 --max-num-batched-tokens 2048 "
    "--enable-prefix-caching --disable-log-requests --tensor-parallel-size 1 --block-size 16",
    "older": "--model m --served-model-name a b --num-scheduler-steps 8 --no-enable-chunked-prefill "
    "--uvicorn-log-level warning --max-seq-len-to-capture 8192 --download-dir /data",
    "agents": "m --api-key k --scheduling-policy priority --async-scheduling --max-logprobs 20 "
    "--enable-prompt-tokens-details --guided-decoding-backend xgrammar -O3 --cuda-graph-sizes 1 2 4",
    "newer": "m --no-enable-log-requests --dtype half --stream-interval 8 --moe-backend triton --max-logprobs 5 "
    "--no-enable-flashinfer-autotune --language-model-only --seed 42 --optimization-level 2 --nnodes 1",
    "underscores": "m --max_model_len=8k --gpu_memory_utilization 0.9 --cpu_offload_gb 0.0",
    "fp8": "m -q fp8 --kv-cache-dtype fp8 -tp 1 -dp 1 --enforce-eager --max-model-len 32K --shutdown-timeout 60",
}
REFUSED = {
    "m --tensor-parallel-size 2": "one GPU",
    "m -tp 4": "one GPU",
    "m --data-parallel-size 2": "replicas are a pool's",
    "m --enable-lora --lora-modules a=b": "no adapters",
    "m --speculative-config {}": "no speculative decoding",
    "m --ssl-keyfile k": "TLS ends at",
    "m --max-logprobs 21": "20 a token",
    "m --block-size 32": "16 tokens",
    "m --revision main": "nothing is downloaded",
    "m --enable-log-requests": "never logged",
}


@pytest.mark.parametrize("line", COMMAND_LINES.values(), ids=COMMAND_LINES)
def test_command_lines_as_people_have_them(line: str) -> None:
    config = parse(shlex.split(line))
    assert config.model.model == "m"


async def test_a_helm_charts_command_line_serves(tmp_path: Path) -> None:
    """Started for real, on a model that is at hand: it answers, and the log says what became of each flag."""
    log = tmp_path / "log"
    flags = shlex.split(COMMAND_LINES["helm"])[1:]
    async with serving(write_tiny_llama(tmp_path / "model"), *flags, log=log) as engine:
        assert (await engine.complete(max_tokens=3)).usage.completion_tokens == 3
    said = log.read_text()
    for flag in ("--trust-remote-code", "--enable-chunked-prefill", "--disable-log-requests", "--block-size"):
        assert f"{flag}: {_row(flag).says}" in said


async def test_an_agent_builders_command_line_serves(tmp_path: Path) -> None:
    """With eight-bit weights and pages, a key, and the older spelling of numbers."""
    flags = [*shlex.split(COMMAND_LINES["agents"])[1:], *shlex.split(COMMAND_LINES["fp8"])[1:]]
    flags[flags.index("--max-model-len") + 1] = "0.5K"
    async with serving(write_tiny_llama(tmp_path / "model"), *flags) as engine:
        assert (await engine.status())["max_model_len"] == 512
        stranger = engine.client.with_options(api_key="x")
        with pytest.raises(openai.AuthenticationError):
            await stranger.models.list()
        agent = engine.client.with_options(api_key="k")
        answer = await agent.completions.create(model="m", prompt="a", max_tokens=3, logprobs=20)
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 3
        metrics = await (await engine.session.get("/metrics")).text()
        assert "engine_graph_hits_total" in metrics


def _row(flag: str) -> VllmFlag:
    return next(row for row in VLLM_FLAGS if flag in row.spellings)


@pytest.mark.parametrize(("line", "says"), REFUSED.items(), ids=REFUSED)
def test_refused_in_a_sentence(line: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(shlex.split(line))
    assert caught.value.code == 2
    assert says in capsys.readouterr().err


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    """Made once: it reads the settings' source."""
    made = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(made)
    return made


@pytest.mark.parametrize("row", VLLM_FLAGS, ids=lambda row: row.names[0])
def test_every_row(
    row: VllmFlag, parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"nothing": [], "one": ["odd"], "many": ["odd", "er"]}[row.takes]
    for name in row.spellings:
        if row.neutral is None or name not in row.names:
            _assert_noted(parser, [name, *values], row)
            continue
        with pytest.raises(SystemExit):
            parser.parse_args(["m", name, *values])
        assert f"{name}{''.join(f' {value}' for value in values)}: {row.says}" in capsys.readouterr().err
        for value in row.neutral:
            _assert_noted(parser, [name, value], row)


def _assert_noted(parser: argparse.ArgumentParser, given: list[str], row: VllmFlag) -> None:
    arguments = parser.parse_args(["m", *given])
    assert arguments.vllm_notes == (f"{given[0]}: {row.says}",)
    assert config_of(arguments) == config_of(parser.parse_args(["m"]))


def test_the_newer_spelling_of_a_switch_that_is_off_is_taken() -> None:
    """`--disable-log-requests` became `--no-enable-log-requests`; nobody who says so wants what is refused."""
    config = parse(shlex.split("m --no-enable-log-requests --no-enable-lora --no-enable-expert-parallel"))
    assert config == parse(["m"])


def test_a_flag_is_a_setting_or_a_row() -> None:
    settings = {f"--{entry.name.replace('_', '-')}" for kind in GROUPS.values() for entry in fields(kind)}
    rows = [name for row in VLLM_FLAGS for name in row.spellings]
    assert len(rows) == len(set(rows))
    assert not settings.union(*ALIASES.values()).intersection(rows)


def test_the_docs_have_the_table() -> None:
    assert table() in (ROOT / "docs/vllm-flags.md").read_text(), "python -m engine.vllm_flags prints it"


def test_serve_refuses_before_it_starts() -> None:
    command = [sys.executable, "-m", "engine", "serve", "nowhere", "--tensor-parallel-size", "3"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert done.returncode == 2
    assert "--tensor-parallel-size 3: a replica runs on one GPU" in done.stderr


@pytest.mark.parametrize(
    ("text", "number"),
    [("4096", 4096), ("8k", 8000), ("8K", 8192), ("25.6k", 25600), ("1m", 10**6), ("2G", 2**31)],
)
def test_numbers_as_people_write_them(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", "k", "1.5", "0.0001k", "1kk", "x", "1/3K"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(["m", "--max-model-len", text])
    assert caught.value.code == 2
