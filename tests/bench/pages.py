"""The console's pages and what each of them asks for: five requests at most, all of them in the benchmark's list.

`make pages` prints how long each page's slowest request takes over ten million events. It knows neither the pages' code
nor their looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median, quantiles

__all__ = ["PAGES", "REQUESTS_MAX", "pages_table"]

REQUESTS_MAX = 5
PAGES: Mapping[str, Sequence[str]] = {
    "overview": ("me", "the board", "the usual, everything, 4 weeks", "overview", "projects"),
    "tenants": ("projects", "breakdown 31 days by project, compared"),
    "one tenant": (
        "one project",
        "keys of the big project",
        "breakdown 31 days, the big project, by model",
        "the board, the big project",
        "requests, the big project",
    ),
    "pools": ("pools", "overview"),
    "models": ("routes", "prices", "breakdown 90 days by model"),
    "usage": (
        "usage 31 days by model",
        "costs 31 days by project and line",
        "breakdown 31 days by key, compared",
        "exports",
    ),
    "requests": ("requests", "pools", "projects"),
    "one request": ("one request", "projects", "pools"),
    "audit log": ("audit log", "projects"),
    "one tenant, SLO": (
        "one project",
        "the board, the big project",
        "latencies of a week by hour, the big project",
    ),
    "board": ("the board", "latencies of a week by hour", "projects"),
    "alerts": ("alert episodes", "alert silences", "alerts", "projects"),
    "objectives": ("objectives", "projects"),
    "webhooks": ("webhook endpoints",),
    "settings": ("me", "users", "admin keys", "sessions"),
    "search box": ("search, a name", "search, a request"),
}


def pages_table(taken: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """`taken`: by question, pairs of wall and CPU time in ms. A page is as slow as its slowest request, since it sends
    them at once; what it costs is their sum."""
    head = f"{'page':16} {'requests':>8} {'p50 ms':>8} {'p95 ms':>8} {'CPU p95':>8} {'CPU in all':>10}"
    return "\n".join([head, *(_line(page, [taken[name] for name in names]) for page, names in PAGES.items())])


def _line(page: str, times: Sequence[Sequence[tuple[float, float]]]) -> str:
    wall, cpu = ([[one[at] for one in times_of] for times_of in times] for at in (0, 1))
    return (
        f"{page:16} {len(times):8} {max(median(one) for one in wall):8.1f} {max(_p95(one) for one in wall):8.1f}"
        f" {max(_p95(one) for one in cpu):8.1f} {sum(median(one) for one in cpu):10.1f}"
    )


def _p95(times: Sequence[float]) -> float:
    return quantiles(times, n=20, method="inclusive")[-1]
