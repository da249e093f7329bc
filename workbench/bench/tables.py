"""The figures of a sweep in rows of text, for the terminal and for the HTML page. Knows no drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from workbench.bench.results import Point, Result, Run, ratios


@dataclass(frozen=True, slots=True)
class Rows:
    """A table: a title, heads and cells."""

    title: str
    heads: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]


def tables_of(result: Result) -> list[Rows]:
    """One per server, and the ratios if there are two."""
    found = [_run_rows(run) for run in result.runs]
    if len(result.runs) == 2:
        found.append(_ratio_rows(*result.runs))
    return found


def sentences_of(result: Result) -> list[str]:
    """What the sweep says in words: the knees, and what is to be known about it."""
    return [*map(_knee_sentence, result.runs), *result.notes]


def as_terminal(result: Result) -> RenderableType:
    return Group(*map(_rich, tables_of(result)), *map(Text, sentences_of(result)))


def _run_rows(run: Run) -> Rows:
    heads = (
        "req/s offered", "answered", "failed", "out tok/s", "goodput/s", "attained",
        "TTFT p50", "p95", "p99 ms", "TPOT p50", "p95 ms", "ITL p95 ms", "E2EL p50 ms",
    )  # fmt: skip
    title = f"{run.label}: {run.model} at {run.url}"
    return Rows(title, heads, tuple(_point_cells(point, run.knee) for point in run.points))


def _point_cells(point: Point, knee: float | None) -> tuple[str, ...]:
    report, latencies = point.report, point.report.latencies_ms

    def ms(figure: str, share: str) -> str:
        value = latencies[figure].get(share)
        return "-" if value is None else f"{value:.1f}"

    return (
        f"{point.rate:g}{' (knee)' if point.rate == knee else ''}",
        f"{report.requests_per_s:.3g}/s",
        str(report.failed),
        f"{report.output_tokens_per_s:.0f}",
        f"{report.goodput_per_s:.3g}",
        f"{point.attained:.1%}",
        *(ms("ttft", share) for share in ("p50", "p95", "p99")),
        *(ms("tpot", share) for share in ("p50", "p95")),
        ms("itl", "p95"),
        ms("e2el", "p50"),
    )


def _ratio_rows(first: Run, second: Run) -> Rows:
    names = ("ttft_p50", "ttft_p95", "tpot_p50", "e2el_p50", "output_tokens_per_s")
    heads = ("req/s offered", "TTFT p50", "TTFT p95", "TPOT p50", "E2EL p50", "out tok/s")
    cells = tuple(
        (f"{row['rate']:g}", *("-" if row[name] is None else f"{row[name]:.3f}" for name in names))
        for row in ratios(first, second)
    )
    return Rows(f"{second.label} over {first.label}, alternated at every rate", heads, cells)


def _knee_sentence(run: Run) -> str:
    if run.knee is None:
        return f"{run.label}: no knee: the sweep has too few rates, or none beyond the limit"
    return f"{run.label}: the knee is at {run.knee:g} requests a second"


def _rich(rows: Rows) -> RenderableType:
    table = Table(title=Text(rows.title), title_justify="left", box=None, pad_edge=False)
    for head in rows.heads:
        table.add_column(head, justify="right")
    for cells in _plain(rows.cells):
        table.add_row(*cells)
    return table


def _plain(cells: Sequence[Sequence[str]]) -> list[list[Text]]:
    """Labels come from the command line: no markup is read out of them."""
    return [[Text(cell) for cell in row] for row in cells]
