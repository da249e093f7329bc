"""Piped on, a line is a line however long."""

from __future__ import annotations

import pytest

from gateway.commands.screen import screen


def test_a_pipe_gets_whole_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    screen().print("word " * 100)
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_terminal_has_its_own_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as rich is told that it writes to a terminal
    monkeypatch.setenv("COLUMNS", "50")
    screen().print("word " * 100)
    assert len(capsys.readouterr().out.splitlines()) == 10
