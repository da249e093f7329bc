"""Every query of every dashboard is PromQL, and asks for what the code measures."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from scripts.dashboards import DASHBOARDS, FOLDER, render
from tests.deploy.metrics import known_metrics
from tests.deploy.promql import complaints, reading
from tests.deploy.test_rules import recorded

NAMES = sorted(DASHBOARDS)


def board(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def targets(name: str) -> list[dict[str, Any]]:
    return [target for panel in board(name)["panels"] for target in panel["targets"]]


def as_sent(query: str) -> str:
    """By Grafana: its own variables are filled in."""
    return re.sub(r"\$\w+", "value", query.replace("$__rate_interval", "5m"))


def expressions(name: str) -> list[str]:
    return [as_sent(target["expr"]) for target in targets(name)]


@pytest.mark.parametrize("name", NAMES)
def test_files_are_what_their_description_makes(name: str) -> None:
    """`python -m scripts.dashboards` writes them."""
    assert (FOLDER / f"{name}.json").read_text(encoding="utf-8") == render(DASHBOARDS[name])


def test_there_is_no_other_file() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_queries_read_what_exists(name: str) -> None:
    known = {**known_metrics(), **recorded()}
    queries = expressions(name)
    assert len(queries) > 15
    wrong = [found for query in queries for found in complaints(query, known)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", NAMES)
def test_legends_name_labels_that_are_left(name: str) -> None:
    known = {**known_metrics(), **recorded()}
    for target in targets(name):
        read = reading(as_sent(target["expr"]))
        left = read.grouped or {label for metric in read.metrics for label in known[metric]}
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= left, target


@pytest.mark.parametrize("name", NAMES)
def test_variables_offer_labels_that_exist_and_are_used(name: str) -> None:
    for variable in board(name)["templating"]["list"][1:]:
        metric, label = re.fullmatch(r"label_values\((.+), (.+)\)", variable["definition"]).groups()  # type: ignore[union-attr]  # no match is a failure
        assert label in known_metrics()[metric] | {"instance"}
        assert any(f"${label}" in target["expr"] for target in targets(name))


@pytest.mark.parametrize("name", NAMES)
def test_panels_do_not_overlap(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board(name)["panels"]:
        place = panel["gridPos"]
        cells = {(x, place["y"]) for x in range(place["x"], place["x"] + place["w"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
