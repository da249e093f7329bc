"""Dockerfiles and compose.yaml: read by hadolint and by compose, and true of the code: commands, flags, settings, ports."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from engine.config import EngineConfig, ServerSettings
from engine.flags import parse
from gateway.cli import app
from gateway.pool.traffic import TOTAL_S_MAX
from gateway.settings import Settings
from tests.tidy.tree import ROOT

DOCKERFILES = sorted((ROOT / "deploy/docker").glob("*.Dockerfile"))
COMPOSE = ROOT / "deploy/compose.yaml"
NEEDED = {"POSTGRES_PASSWORD": "generated", "ENGINE_API_KEY": "generated"}
TOLLWAY = {"migrate", "gateway", "worker", "pool"}


def program(name: str) -> str:
    """Of the environment that runs the tests: both come from PyPI."""
    return str(Path(sys.executable).with_name(name))


def hadolint(file: Path) -> subprocess.CompletedProcess[str]:
    command = [program("hadolint"), "--failure-threshold", "info", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def compose(text: str) -> subprocess.CompletedProcess[str]:
    command = [
        program("docker-compose"),
        "--project-directory",
        str(COMPOSE.parent),
        "-f",
        "-",
        "config",
        "--format",
        "json",
    ]
    environment = {**os.environ, **NEEDED}
    return subprocess.run(command, input=text, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    done = compose(COMPOSE.read_text(encoding="utf-8"))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["services"]
    return found


def seconds(text: str) -> int:
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    assert found, text
    hours, minutes, rest = (int(one or 0) for one in found.groups())
    return hours * 3600 + minutes * 60 + rest


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.stem)
def test_dockerfiles_pass_hadolint(file: Path) -> None:
    done = hadolint(file)
    assert done.returncode == 0, done.stdout


def test_hadolint_finds_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN cd /tmp && sudo apt-get install gcc\n")
    assert hadolint(tmp_path / "Dockerfile").returncode != 0


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.stem)
def test_images_run_as_nobody_from_a_pinnable_base(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    stages = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert stages == ["${PYTHON}", "${PYTHON}"], "built in one stage, run in another, both from the argument"
    assert re.search(r"^ARG PYTHON=\S+$", text, re.MULTILINE)
    assert re.findall(r"^USER (\S+)", text, re.MULTILINE) == ["10001:10001"]
    assert "*" in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.stem)
def test_images_hold_the_whole_distribution(file: Path) -> None:
    """What is not copied is not installed, and the command that needs it ends in a traceback."""
    built = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    packages = {name.removesuffix("*") for name in built["packages"]["find"]["include"]}
    copied = re.findall(r"^COPY (\w+) (\w+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    assert dict(copied) == {name: name for name in packages}
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {f"!{name}" for name in packages} <= set(allowed)


def test_images_start_what_exists() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    for file in DOCKERFILES:
        text = file.read_text(encoding="utf-8")
        entry = json.loads(re.findall(r"^ENTRYPOINT (.+)$", text, re.MULTILINE)[0])
        ports = {int(port) for port in re.findall(r"^EXPOSE (.+)$", text, re.MULTILINE)[0].split()}
        if file.stem == "gateway":
            assert entry[0] in scripts
            assert Settings().server.port in ports
        else:
            assert entry[:4] == ["python", "-m", "engine", "serve"]
            config = parse([*entry[4:], "--model", "model"])
            assert {config.server.port} == ports == {ServerSettings().port}
            assert config.server.host == "0.0.0.0"


def test_compose_is_read_and_complaints_are_errors() -> None:
    broken = COMPOSE.read_text(encoding="utf-8").replace("command: [gateway]", "comand: [gateway]")
    assert compose(broken).returncode != 0


def test_services_have_commands_that_exist(services: dict[str, Any]) -> None:
    command: Any = get_command(app)
    for name in TOLLWAY:
        assert services[name]["command"][0] in command.commands
    engine = engine_of(services)
    assert engine.model.served_model_name == ("gemma",)


def engine_of(services: dict[str, Any]) -> EngineConfig:
    return parse(services["engine"]["command"])


def test_services_have_settings_that_exist(
    services: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in TOLLWAY:
        with monkeypatch.context() as patch:
            for key, value in services[name]["environment"].items():
                patch.setenv(key, value)
            settings = Settings()
        assert settings.server.host == "0.0.0.0"
        assert settings.server.metrics_port == 9464
        assert NEEDED["POSTGRES_PASSWORD"] in settings.database.url.get_secret_value()


def test_nothing_is_cut_by_a_stop(services: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than the longest request, and than each process's own patience."""
    for key, value in services["gateway"]["environment"].items():
        monkeypatch.setenv(key, value)
    settings, engine = Settings(), engine_of(services).server
    longest = max(settings.upstream.total_timeout_s, TOTAL_S_MAX)
    assert settings.server.drain_timeout_s >= longest
    assert engine.drain_timeout_s >= longest + engine.drain_grace_s
    assert seconds(services["gateway"]["stop_grace_period"]) > settings.server.drain_timeout_s
    assert seconds(services["engine"]["stop_grace_period"]) > engine.drain_timeout_s + engine.drain_grace_s


def test_probes_ask_for_what_is_served(services: dict[str, Any]) -> None:
    gateway = json.loads((ROOT / "docs/openapi.json").read_text(encoding="utf-8"))["paths"]
    engine = json.loads((ROOT / "docs/engine-openapi.json").read_text(encoding="utf-8"))["paths"]
    for name, port, paths in (("gateway", 8080, gateway), ("engine", 8000, engine)):
        found = re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", services[name]["healthcheck"]["test"][-1])
        assert [int(one) for one, _ in found] == [port]
        assert found[0][1] in paths


def test_prometheus_scrapes_the_services(services: dict[str, Any]) -> None:
    jobs = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yaml").read_text(encoding="utf-8"))[
        "scrape_configs"
    ]
    targets = {job["job_name"]: job["static_configs"][0]["targets"][0].split(":") for job in jobs}
    assert set(targets) == {f"tollway-{name}" for name in ("gateway", "worker", "pool", "engine")}
    for host, port in targets.values():
        assert host in services
        assert port == (
            "8000" if host == "engine" else services[host]["environment"]["TOLLWAY_SERVER__METRICS_PORT"]
        )


def test_secrets_are_not_in_the_repository() -> None:
    ignored = (COMPOSE.parent / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {"secrets/", ".env"} <= set(ignored)
