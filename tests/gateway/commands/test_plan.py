"""`tollway plan` as a command."""

import json
from pathlib import Path

from typer.testing import CliRunner

from gateway.cli import app
from tests.models import write_tiny_llama
from tests.workbench.capacity.configs import LLAMA3_8B

RUNNER = CliRunner()


def _config(tmp_path: Path) -> str:
    path = tmp_path / "Llama-3-8B" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(LLAMA3_8B))
    return str(path)


def test_json(tmp_path: Path) -> None:
    wishes = ["--gpu", "H100", "--qps", "140", "--qps-per-replica", "35", "--json"]
    result = RUNNER.invoke(app, ["plan", _config(tmp_path), *wishes])
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["model"]["name"] == "Llama-3-8B"
    assert found["kv"]["bytes_per_token"] == 128 * 1024
    assert (found["replicas"]["gpus_needed"], found["replicas"]["gpus_spare"]) == (4, 1)


def test_table_of_a_checkpoint_on_an_unlisted_gpu(tmp_path: Path) -> None:
    checkpoint = write_tiny_llama(tmp_path / "tiny")
    result = RUNNER.invoke(
        app, ["plan", str(checkpoint), "--gpu", "mine", "--gpu-memory-gib", "2", "--context", "512"]
    )
    assert result.exit_code == 0, result.stderr
    assert "1 x mine (2 GiB, 90% used)" in result.stdout


def test_the_rate_comes_from_a_benchmark(tmp_path: Path) -> None:
    requests = [{"ttft_ms": 100.0, "tpot_ms": 10.0, "e2el_ms": 1000.0}] * 20
    late = [request | {"ttft_ms": 5000.0} for request in requests]
    points = [{"rate": 35, "requests": requests, "failed": 0}, {"rate": 70, "requests": late, "failed": 0}]
    file = tmp_path / "bench.json"
    file.write_text(json.dumps({"format": "tollway-bench/1", "runs": [{"label": "a", "points": points}]}))
    command = ["plan", _config(tmp_path), "--benchmark", str(file), "--qps", "140", "--json"]
    result = RUNNER.invoke(app, [*command, "--slo-ttft-ms", "800"])
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["replicas"]["qps_per_replica"] == 35
    refused = RUNNER.invoke(app, [*command, "--slo-ttft-ms", "8"])
    assert (refused.exit_code, refused.stderr.startswith("error: the objective was kept by 0%")) == (1, True)


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    for wrong, status, said in (
        (["--gpu", "x100"], 1, "error: --gpu x100 is not known: give --gpu-memory-gib, or one of a10"),
        (["--context", "9000"], 1, "error: --context 9,000 is more than the 8,192 positions"),
        (["--kv", "fp3"], 2, ""),
    ):
        folder = tmp_path / wrong[1]
        folder.mkdir()
        result = RUNNER.invoke(app, ["plan", _config(folder), *wrong])
        assert (result.exit_code, result.stderr.startswith(said)) == (status, True), result.stderr
