"""What commands show: tables, one object, and questions before what cannot be undone."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from gateway.cli import app
from gateway.commands.calling import confirmed, given, show_list, show_one

ROWS = [
    {"id": "a" * 40, "name": "[red]x[/red]", "made_at": 0, "spec": {"kind": "vllm"}, "scopes": ["r", "w"]},
    {"id": "b", "name": None, "made_at": None, "spec": {}, "scopes": []},
]
COLUMNS = ("id", "name", "made_at", "spec.kind", "scopes")


def test_a_table_has_a_line_per_object_when_it_is_piped_on(capsys: pytest.CaptureFixture[str]) -> None:
    show_list(ROWS, COLUMNS, as_json=False)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["id", "name", "made_at", "kind", "scopes"]
    assert first.split() == ["a" * 40, "[red]x[/red]", "1970-01-01", "00:00", "vllm", "r,", "w"]
    assert second.split() == ["b", "-", "-", "-", "-"]


def test_json_is_what_came(capsys: pytest.CaptureFixture[str]) -> None:
    show_list(ROWS, COLUMNS, as_json=True)
    assert json.loads(capsys.readouterr().out) == ROWS
    show_one(ROWS[0], as_json=True)
    assert json.loads(capsys.readouterr().out) == ROWS[0]


def test_one_object_is_lines_of_name_and_value(capsys: pytest.CaptureFixture[str]) -> None:
    show_one({"object": "x", "id": "a", "limits": {"b": 1}, "is_hard": False}, as_json=False)
    assert capsys.readouterr().out.splitlines() == ["id       a", 'limits   {"b": 1}', "is_hard  False"]


def test_what_was_not_typed_is_not_sent() -> None:
    assert given(name="x", weight=None, hard=False, count=0) == {"name": "x", "hard": False, "count": 0}


def test_a_question_is_asked_and_no_is_no(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(typer, "confirm", lambda text, abort: asked.append(text))
    confirmed("Sure?", yes=True)
    assert asked == []
    confirmed("Sure?", yes=False)
    assert asked == ["Sure?"]
    command = ["admin", "keys", "revoke", "p", "k", "--admin-key", "tw-x", "--url", "http://127.0.0.1:1"]
    refused = CliRunner().invoke(app, command, input="n\n")
    assert (refused.exit_code, asked[1:]) == (1, ["Revoke k for good?"])


def test_without_a_key_it_says_where_one_comes_from() -> None:
    result = CliRunner().invoke(app, ["admin", "projects", "list"], env={"OPENAI_ADMIN_KEY": None})
    assert result.stderr.startswith("error: give --admin-key or set OPENAI_ADMIN_KEY")
