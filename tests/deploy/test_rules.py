"""Prometheus's rules speak of what the code measures, have their tests, and a runbook each."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
import yaml

from gateway.alerts.kinds import KINDS
from gateway.pool.views import ReplicaState
from tests.deploy.metrics import engine_metrics, gateway_metrics, known_metrics
from tests.deploy.promql import complaints, reading
from tests.tidy.tree import ROOT

RULES = ROOT / "deploy/prometheus/rules.yaml"
RUNBOOKS = ROOT / "docs/runbooks"
SEVERITIES = {"page", "ticket", "info"}
SECTIONS = ["What it means", "Look", "Do", "Over when"]


@cache
def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


@cache
def recorded() -> dict[str, frozenset[str]]:
    """What recording rules make, with the labels that are left."""
    return {rule["record"]: frozenset(reading(rule["expr"]).grouped) for rule in rules() if "record" in rule}


def test_the_registries_are_read() -> None:
    """A reader that found nothing would find no fault either."""
    assert gateway_metrics()["tollway_requests_total"] == {"tenant", "model", "endpoint", "code"}
    assert gateway_metrics()["tollway_request_seconds_bucket"] == {"tenant", "model", "le"}
    assert engine_metrics()["vllm:request_success_total"] == {"model_name", "engine", "finished_reason"}
    assert "engine_steps_total" in engine_metrics()


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("rate(tollway_request_total[5m])", "no metric tollway_request_total"),
        ('tollway_requests_total{status="500"}', "tollway_requests_total has no label status"),
        ("sum by (served_model) (tollway_requests_total)", "no label served_model"),
        ("sum by (model (tollway_requests_total)", "sum by (model"),
    ],
)
def test_what_is_wrong_is_found(expression: str, complaint: str) -> None:
    assert any(complaint in found for found in complaints(expression, known_metrics()))


def test_rules_read_metrics_that_exist() -> None:
    wrong = [
        found for rule in rules() for found in complaints(rule["expr"], {**known_metrics(), **recorded()})
    ]
    assert not wrong, "\n".join(wrong)


def test_rules_name_values_that_the_code_gives() -> None:
    """Label values that are written into rules: event types, and states of a replica."""
    text = RULES.read_text(encoding="utf-8")
    types = set(re.findall(r'\btype=~"([^"]+)"', text))
    told = {kind.firing for kind in KINDS.values()} | {"budget.threshold_reached", "budget.exhausted"}
    assert types
    assert types <= told
    states = set(re.findall(r'\bstate=~"([^"]+)"', text))
    assert {state for one in states for state in one.split("|")} <= set(ReplicaState.__args__)  # type: ignore[attr-defined]  # a Literal


def test_alerts_are_labelled_and_explained() -> None:
    for name, alert in alerts().items():
        assert alert["labels"]["severity"] in SEVERITIES, name
        assert set(alert["annotations"]) == {"summary", "description", "runbook"}, name
        assert alert["annotations"]["runbook"] == f"docs/runbooks/{name}.md"


def test_each_alert_has_a_runbook_and_each_runbook_an_alert() -> None:
    assert {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"} == set(alerts())


def cases() -> list[dict[str, Any]]:
    files = sorted(RULES.parent.glob("rules_*test.yaml"))
    return [case for file in files for case in yaml.safe_load(file.read_text(encoding="utf-8"))["tests"]]


def test_each_alert_is_tested_both_ways() -> None:
    """promtool runs them, in `make deploy-check`."""
    checks = [check for case in cases() for check in case["alert_rule_test"]]
    fires = {check["alertname"] for check in checks if check["exp_alerts"]}
    silent = {check["alertname"] for check in checks if not check["exp_alerts"]}
    assert fires == set(alerts())
    assert silent == set(alerts())


def test_tests_feed_series_that_exist() -> None:
    wrong = [
        found
        for case in cases()
        for series in case["input_series"]
        for found in complaints(series["series"], known_metrics())
    ]
    assert not wrong, "\n".join(wrong)


def test_runbooks_have_the_same_sections() -> None:
    for path in sorted(RUNBOOKS.glob("Tollway*.md")):
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {path.stem}\n\nSeverity: {alerts()[path.stem]['labels']['severity']}."), (
            path
        )
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS, path
        assert "```promql\n" in text, path


def test_runbooks_query_what_exists() -> None:
    known = {**known_metrics(), **recorded()}
    wrong = []
    for path in sorted(RUNBOOKS.glob("Tollway*.md")):
        blocks = re.findall(r"```promql\n(.+?)```", path.read_text(encoding="utf-8"), re.DOTALL)
        wrong += [f"{path.name}: {found}" for block in blocks for found in complaints(block.strip(), known)]
    assert not wrong, "\n".join(wrong)


def test_the_adapter_reads_metrics_that_exist() -> None:
    custom = yaml.safe_load((RULES.parent / "adapter.yaml").read_text(encoding="utf-8"))["rules"]["custom"]
    assert custom
    for rule in custom:
        assert not complaints(rule["seriesQuery"], known_metrics())
        filled = rule["metricsQuery"].replace("<<.GroupBy>>", "pod").replace("<<.LabelMatchers>>", 'pod="p"')
        assert not complaints(filled, known_metrics())
        assert re.match(rule["name"]["matches"], rule["seriesQuery"].split("{")[0])
