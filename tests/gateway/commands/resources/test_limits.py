"""Limits by the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


async def test_limits(admin: Callable[..., Awaitable[Any]]) -> None:
    project = (await admin("projects", "create", "Acme"))["id"]
    many = ("--requests-per-min", "60", "--tokens-per-min", "1000", "--concurrent-requests", "0")
    made = await admin("limits", "set", project, "--model", "llama", *many, "--max-output-tokens", "99")
    expected = {
        "served_model": "llama", "requests_per_min": 60, "tokens_per_min": 1000, "concurrent_requests": 0,
        "max_output_tokens": 99, "requests_per_day": None,
    }  # fmt: skip
    assert {name: made[name] for name in expected} == expected
    assert made["id"] in {one["id"] for one in await admin("limits", "list", project)}
    await admin("limits", "delete", project, made["id"], "--yes")
    assert made["id"] not in {one["id"] for one in await admin("limits", "list", project)}
    assert (await admin("limits", "list", "proj_none", status=1)).startswith("error: ")
