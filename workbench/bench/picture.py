"""The TTFT–QPS curve as a PNG: TTFT, TPOT and throughput over the rate, the knee marked. Draws; computes nothing.

matplotlib comes with the extra `bench` and is imported when a picture is asked for; its state of its own (pyplot) is
not touched.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.bench.errors import BenchError
from workbench.bench.results import Point, Result, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#1f6feb", "#d1570b")
_INCHES = (9.0, 10.5)


def draw(result: Result) -> bytes:
    """PNG bytes. Raises `BenchError` where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BenchError(f"pictures need {error.name}: pip install 'tollway[bench]'") from error
    figure = Figure(figsize=_INCHES, layout="constrained")
    ttft, tpot, throughput = figure.subplots(3, 1, sharex=True)
    for run, colour in zip(result.runs, _COLOURS, strict=False):
        _latency(ttft, run, "ttft", colour)
        _latency(tpot, run, "tpot", colour)
        _throughput(throughput, run, colour)
        _mark_knee(ttft, run, colour)
    _limit(ttft, result.objectives.ttft_ms)
    _limit(tpot, result.objectives.tpot_ms)
    ttft.set_yscale("log")
    tpot.set_ylim(bottom=0)
    throughput.set_ylim(bottom=0)
    for axes, label in ((ttft, "TTFT, ms"), (tpot, "TPOT, ms"), (throughput, "requests a second")):
        axes.set_ylabel(label)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize="small")
    throughput.set_xlabel("requests a second offered")
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=100)
    return image.getvalue()


def _latency(axes: Axes, run: Run, figure: str, colour: str) -> None:
    for share, style in (("p50", "-"), ("p95", "--"), ("p99", ":")):
        _line(axes, run, _of(figure, share), f"{run.label} {share}", colour, style)


def _throughput(axes: Axes, run: Run, colour: str) -> None:
    _line(axes, run, lambda point: point.report.requests_per_s, f"{run.label} answered", colour, "-")
    _line(
        axes, run, lambda point: point.report.goodput_per_s, f"{run.label} within the objective", colour, "--"
    )


def _line(
    axes: Axes, run: Run, value: Callable[[Point], float | None], label: str, colour: str, style: str
) -> None:
    pairs = [(point.rate, value(point)) for point in run.points]
    known = [(rate, figure) for rate, figure in pairs if figure is not None]
    axes.plot(
        [rate for rate, _ in known],
        [figure for _, figure in known],
        style,
        color=colour,
        marker=".",
        label=label,
    )


def _of(figure: str, share: str) -> Callable[[Point], float | None]:
    return lambda point: point.report.latencies_ms[figure].get(share)


def _mark_knee(axes: Axes, run: Run, colour: str) -> None:
    if run.knee is not None:
        axes.axvline(run.knee, color=colour, alpha=0.5, label=f"{run.label} knee: {run.knee:g}/s")


def _limit(axes: Axes, limit_ms: float | None) -> None:
    if limit_ms is not None:
        axes.axhline(limit_ms, color="#b91c1c", alpha=0.6, linewidth=1, label=f"objective: {limit_ms:g} ms")
