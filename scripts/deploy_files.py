"""Writes what is made from other deployment files: `make deploy-files`.

The PrometheusRule from Prometheus's rules, and the overlays as `kubectl kustomize` renders them, which the tests check
without kubectl. Each rendered file begins with the hash of what it was rendered from. Knows nothing of what is inside.
"""

from __future__ import annotations

import hashlib
import subprocess
import textwrap
from pathlib import Path

__all__ = ["KUSTOMIZE", "OVERLAYS", "RENDERED", "RULE_OBJECT", "render", "rule_object", "sources_hash"]

ROOT = Path(__file__).resolve().parents[1]
KUSTOMIZE = ROOT / "deploy/kustomize"
RULES = ROOT / "deploy/prometheus/rules.yaml"
RULE_OBJECT = KUSTOMIZE / "components/monitoring/prometheusrule.yaml"
RENDERED = ROOT / "tests/deploy/rendered"
OVERLAYS = ("dev", "prod", "gpu")
HEAD = """\
# Made from deploy/prometheus/rules.yaml by `make deploy-files`.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: tollway
spec:
"""


def rule_object() -> str:
    text = RULES.read_text(encoding="utf-8")
    return HEAD + textwrap.indent(text[text.index("groups:") :], "  ")


def sources_hash() -> str:
    """Of every file that kustomize reads."""
    digest = hashlib.sha256()
    for path in sorted(KUSTOMIZE.rglob("*.yaml")):
        digest.update(f"{path.relative_to(KUSTOMIZE)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def render(overlay: str) -> str:
    """Raises CalledProcessError with kubectl's complaint."""
    command = ["kubectl", "kustomize", str(KUSTOMIZE / "overlays" / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return f"# Rendered by `make deploy-files` from {sources_hash()}\n{done.stdout}"


def main() -> None:
    RULE_OBJECT.write_text(rule_object(), encoding="utf-8")
    RENDERED.mkdir(exist_ok=True)
    for overlay in OVERLAYS:
        (RENDERED / f"{overlay}.yaml").write_text(render(overlay), encoding="utf-8")


if __name__ == "__main__":
    main()
