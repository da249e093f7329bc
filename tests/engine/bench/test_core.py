"""The measurement measures a steady batch through the real loop; what it measures is not asserted."""

from __future__ import annotations

import pytest

from engine.bench import core


@pytest.mark.parametrize("windows", [(None,), (None, 64)])
def test_measures_every_part(windows: tuple[int | None, ...]) -> None:
    figures = core.measure(num_rows=4, prompt=40, num_steps=40, windows=windows)
    assert figures.keys() == {"turn", "turn p99", "schedule"}
    assert 0 < figures["schedule"] <= figures["turn"] <= figures["turn p99"]


def test_prints_a_line_per_kind_of_model(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["core", "--rows", "4", "--prompt", "20", "--steps", "40"])
    core.main()
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "4 rows, 1 KV groups",
        "4 rows, 6 KV groups",
    ]
