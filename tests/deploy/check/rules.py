"""Prometheus and Alertmanager read their files, rules do what their tests say, and alerts reach who they should."""

from __future__ import annotations

import subprocess

from tests.tidy.tree import ROOT

__all__ = ["run"]

FOLDER = ROOT / "deploy/prometheus"
ALERTMANAGER = ROOT / "deploy/alertmanager/alertmanager.yaml"
ROUTES = {
    ("alertname=TollwayLedgerDrift", "severity=page"): "page",
    ("alertname=TollwayQueueHigh", "severity=ticket"): "ticket",
    ("alertname=TollwayQueueScale", "severity=info"): "quiet",
    ("alertname=slo.burn_rate.firing", "service=tollway"): "page",
    ("alertname=replica.down", "service=tollway"): "page",
    ("alertname=pool.kv_high", "service=tollway"): "ticket",
}


def run() -> str:
    _call("promtool", "check", "rules", "rules.yaml")
    _call("promtool", "test", "rules", "rules_test.yaml", "rules_slow_test.yaml")
    _call("promtool", "check", "config", "prometheus.yaml")
    _call("amtool", "check-config", str(ALERTMANAGER))
    for labels, receiver in ROUTES.items():
        told = _call("amtool", "config", "routes", "test", f"--config.file={ALERTMANAGER}", *labels)
        assert told.split() == [receiver], (labels, told)
    return f"rules, their tests and both configurations hold; {len(ROUTES)} alerts reach their receivers"


def _call(*command: str) -> str:
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout
