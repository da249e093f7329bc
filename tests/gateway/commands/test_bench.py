"""`tollway bench` as a command: what it writes, and mistakes in one sentence."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from gateway.cli import app
from tests.fakes.engine import FakeEngine
from tests.workbench.capacity.configs import LLAMA3_8B

RUNNER = CliRunner()


async def _bench(engine: FakeEngine, *flags: str) -> Result:
    command = [
        "bench",
        f"{engine.url}/v1/",
        "--model",
        engine.model,
        "--api-key",
        str(engine.api_key),
        *flags,
    ]
    return await asyncio.to_thread(RUNNER.invoke, app, command)


async def test_results_picture_report_and_the_plan_made_of_them(tmp_path: Path) -> None:
    files = {kind: tmp_path / f"bench.{kind}" for kind in ("json", "png", "html")}
    wanted = [part for kind, path in files.items() for part in (f"--{kind}", str(path))]
    async with FakeEngine() as engine:
        result = await _bench(
            engine, "--rates", "50,100", "--duration", "0.01", "--min-requests", "3", "--slo-ttft-ms", "60000",
            "--against", f"{engine.url}/v1", "--labels", "old, new", *wanted,
        )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert "new over old, alternated at every rate" in result.stdout
    assert "old at 50/s" in result.stderr, "the bar goes to stderr"
    found = json.loads(files["json"].read_text())
    assert [run["label"] for run in found["runs"]] == ["old", "new"]
    assert found["settings"]["rates"] == "50,100"
    assert "api_key" not in found["settings"]
    assert str(engine.api_key) not in files["json"].read_text() + files["html"].read_text()
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LLAMA3_8B))
    plan = [
        "plan",
        str(config),
        "--qps",
        "400",
        "--benchmark",
        str(files["json"]),
        "--benchmark-label",
        "new",
    ]
    planned = RUNNER.invoke(app, [*plan, "--slo-ttft-ms", "60000", "--json"])
    assert planned.exit_code == 0, planned.stderr
    assert json.loads(planned.stdout)["replicas"]["needed"] == 4


@pytest.mark.parametrize("dataset", ["shared-prefix", "multi-turn", "chats.json", "prompts.jsonl"])
async def test_data_sets(tmp_path: Path, dataset: str) -> None:
    said = [{"from": "human", "value": "Hello"}, {"from": "gpt", "value": "Good day to you"}]
    (tmp_path / "chats.json").write_text(json.dumps([{"conversations": said}]))
    (tmp_path / "prompts.jsonl").write_text(json.dumps({"prompt": "Once upon a time"}))
    name = str(tmp_path / dataset) if "." in dataset else dataset
    async with FakeEngine() as engine:
        flags = ("--rates", "500", "--duration", "0.001", "--min-requests", "4", "--no-ignore-eos")
        result = await _bench(engine, "--dataset", name, *flags)
        assert result.exit_code == 0, result.stderr
        paths = {request.path for request in engine.requests}
        assert not any("ignore_eos" in request.body for request in engine.requests)
    assert paths == {"/v1/chat/completions" if dataset in ("multi-turn", "chats.json") else "/v1/completions"}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--rates", "1,x"], "--rates '1,x': give different numbers above 0"),
        (["--rates", "1,1"], "--rates '1,1'"),
        (["--rates", "nan"], "--rates 'nan'"),
        (["--vocab", "9:3"], "--vocab '9:3': give two token ids, the lower first"),
        (["--labels", "a,a"], "--labels 'a,a': give two different names"),
        (["--dataset", "poems"], "--dataset poems: give random, shared-prefix"),
        (["--dataset", "none.json"], "none.json cannot be read"),
        (["--extra-body", "["], "--extra-body is not JSON"),
        (["--extra-body", "[]"], "--extra-body must be a JSON object"),
        (["--rates", "1"], "http://127.0.0.1:1/v1 answers no request of this data set: ClientConnectorError"),
    ],
)
def test_mistakes_are_one_sentence(flags: list[str], said: str) -> None:
    result = RUNNER.invoke(app, ["bench", "http://127.0.0.1:1/v1", "--model", "m", *flags])
    assert (result.exit_code, result.stderr.startswith(f"error: {said}")) == (1, True), result.stderr
