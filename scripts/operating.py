"""Writes the tables of docs/operating.md that come from the code: `python -m scripts.operating`.

Settings with their defaults and explanations, the metrics of gateway, worker and pool, and the alerts. What stands between
a pair of marks is replaced; the rest of the page is written by hand.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import Counter, Gauge, Histogram
from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined

from gateway.obs.metrics import Metrics
from gateway.settings import Settings

__all__ = ["PAGE", "render"]

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/operating.md"
RULES = ROOT / "deploy/prometheus/rules.yaml"
_KINDS = {Counter: ("counter", "_total"), Gauge: ("gauge", ""), Histogram: ("histogram", "")}


def settings_table() -> str:
    rows = ["| setting | default | |", "|---|---|---|"]
    for group, info in Settings.model_fields.items():
        kind = info.annotation
        assert isinstance(kind, type)
        assert issubclass(kind, BaseModel)
        explained = dict(_explanations(kind))
        for name, field in kind.model_fields.items():
            variable = f"TOLLWAY_{group}__{name}".upper()
            rows.append(f"| `{variable}` | {_default(field.default)} | {explained.get(name, '')} |")
    return "\n".join(rows)


def metrics_table() -> str:
    rows = ["| metric | kind | labels | |", "|---|---|---|---|"]
    for instrument in vars(Metrics()).values():
        for cls, (kind, suffix) in _KINDS.items():
            if isinstance(instrument, cls):
                name, text = f"{instrument._name}{suffix}", instrument._documentation
                labels = ", ".join(f"`{label}`" for label in instrument._labelnames)
                rows.append(f"| `{name}` | {kind} | {labels} | {text} |")
    return "\n".join(rows)


def alerts_table() -> str:
    rows = ["| alert | severity | |", "|---|---|---|"]
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]:
        for rule in group["rules"]:
            if "alert" in rule:
                name, about = rule["alert"], " ".join(rule["annotations"]["description"].split())
                rows.append(f"| [{name}](runbooks/{name}.md) | {rule['labels']['severity']} | {about} |")
    return "\n".join(rows)


def render(page: str) -> str:
    for name, table in (("settings", settings_table), ("metrics", metrics_table), ("alerts", alerts_table)):
        begin, end = f"<!-- {name}: written by scripts/operating.py -->", f"<!-- end of {name} -->"
        assert begin in page, name
        assert end in page, name
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}\n{table()}\n{end}{after}"
    return page


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return "the host's name"
    if value is None:
        return "–"
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "none" if value == () else f"`{value}`"


def _explanations(kind: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Setting → the text below it in the source."""
    (group,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(group, ast.ClassDef)
    for entry, text in pairwise(group.body):
        match entry, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                yield name, " ".join(words.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
