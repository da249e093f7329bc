"""What the terminal shows."""

from __future__ import annotations

import io

from rich.console import Console

from tests.workbench.bench.runs import result, run
from workbench.bench.tables import as_terminal, sentences_of, tables_of


def test_a_table_per_server_and_one_of_ratios() -> None:
    found = tables_of(result(run("a", 100, 110, 120, 2000), run("b", 200, 220, 240, 260)))
    assert [len(rows.cells) for rows in found] == [4, 4, 4]
    assert found[0].cells[2][0] == "3 (knee)"
    assert found[0].cells[0][6] == "100.0"
    assert found[2].cells[0] == ("1", "2.000", "2.000", "1.000", "1.833", "0.969")
    assert len(tables_of(result(run("a", 100)))) == 1


def test_knees_are_said_in_words() -> None:
    said = sentences_of(result(run("a", 100, 110, 120, 2000), run("b", 1, 1)))
    assert said == [
        "a: the knee is at 3 requests a second",
        "b: no knee: the sweep has too few rates, or none beyond the limit",
        "a note <with> marks",
    ]


def test_labels_are_text_and_no_markup() -> None:
    out = io.StringIO()
    Console(file=out, width=200).print(as_terminal(result(run("[red]a[/red]", 100))))
    assert "TTFT p50" in out.getvalue()
    assert "[red]a[/red]: m at http://" in out.getvalue()
