"""What a PromQL expression reads: its metrics, and the labels that it picks, groups or matches by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import promql_parser

from tests.deploy.metrics import TARGET_LABELS

__all__ = ["Reading", "complaints", "reading"]


@dataclass
class Reading:
    selectors: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    """Metric and the labels of its matchers."""
    grouped: set[str] = field(default_factory=set)
    """Labels of `by`, `without`, `on` and `ignoring`."""

    @property
    def metrics(self) -> set[str]:
        return {name for name, _ in self.selectors}


def reading(expression: str) -> Reading:
    """Raises ValueError for an expression that is no PromQL."""
    found = Reading()

    def visit(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            _select(found, node)
        elif isinstance(node, promql_parser.MatrixSelector):
            _select(found, node.vector_selector)
        elif isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            found.grouped.update(node.modifier.labels)
        elif isinstance(node, promql_parser.BinaryExpr) and node.modifier is not None:
            matching = node.modifier.matching
            found.grouped.update(matching.labels if matching is not None else ())

    promql_parser.walk(promql_parser.parse(expression), visit)
    return found


def complaints(expression: str, known: dict[str, frozenset[str]]) -> list[str]:
    """Metrics that nobody has, and labels that none of the expression's metrics has."""
    try:
        read = reading(expression)
    except ValueError as error:
        return [f"{expression}: {error}"]
    wrong = [f"no metric {name}: {expression}" for name in sorted(read.metrics - set(known))]
    for name, labels in read.selectors:
        surplus = labels - known.get(name, labels) - TARGET_LABELS
        wrong += [f"{name} has no label {label}: {expression}" for label in sorted(surplus)]
    has = TARGET_LABELS.union(*(known.get(name, read.grouped) for name in read.metrics))
    return wrong + [f"no label {label}: {expression}" for label in sorted(read.grouped - has)]


def _select(found: Reading, node: Any) -> None:
    matchers = {matcher.name for matcher in node.matchers.matchers}
    found.selectors.append((node.name or "", frozenset(matchers)))
