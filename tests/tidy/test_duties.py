"""The table of duties (tests/duties.toml): each has its tests, and each test that names a duty is in the table."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from tests.tidy.tree import ROOT, sources

TABLE = ROOT / "tests" / "duties.toml"
SECTIONS = {"A": (1, 10), "B": (11, 17), "C": (18, 23), "D": (24, 29), "E": (30, 32), "F": (33, 34)} | {
    "G": (35, 39),
    "H": (40, 42),
    "I": (43, 46),
    "engine-": (1, 22),
}


def test_table_lists_every_duty() -> None:
    wanted = {
        f"{section}{number}"
        for section, (first, last) in SECTIONS.items()
        for number in range(first, last + 1)
    }
    assert set(_duties()) == wanted


def test_listed_tests_exist_and_name_their_duty() -> None:
    named = dict(_named())
    wrong = [
        f"{duty}: {test} {'names ' + named[test] if test in named else 'names no duty or does not exist'}"
        for duty, row in _duties().items()
        for test in row["tests"]
        if named.get(test) != duty
    ]
    assert not wrong, "\n".join(wrong)


def test_tests_that_name_a_duty_are_listed() -> None:
    table = _duties()
    missing = [
        f'"{test}" belongs under [{duty}]'
        for test, duty in _named()
        if test not in table.get(duty, {"tests": []})["tests"]
    ]
    assert not missing, f"add to {TABLE.relative_to(ROOT)}:\n" + "\n".join(missing)


def test_complete_sections_are_complete() -> None:
    table = _duties()
    for duty, row in table.items():
        print(f"{duty:4} {len(row['tests']):2}  {row['duty']}")
    bare = [
        duty
        for duty, row in table.items()
        if duty.rstrip("0123456789") in _document()["complete"] and not row["tests"]
    ]
    assert not bare, f"no test yet: {bare}"


def _document() -> dict[str, Any]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def _duties() -> dict[str, Any]:
    return {name: row for name, row in _document().items() if name != "complete"}


def _named() -> Iterator[tuple[str, str]]:
    """(test, duty) of every test whose docstring begins with one."""
    for source in sources("tests"):
        for node in source.functions:
            begins = re.match(r"Duty ([A-Z]\d+|engine-\d+):", ast.get_docstring(node) or "")
            if begins and node.name.startswith("test_"):
                yield f"{source.path.relative_to(ROOT)}::{node.name}", begins[1]
