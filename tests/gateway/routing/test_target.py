"""Model permissions: allow lists and deny lists."""

from __future__ import annotations

import pytest

from gateway.routing.target import Permission


@pytest.mark.parametrize(
    ("mode", "listed", "other"), [("allow_list", True, False), ("deny_list", False, True)]
)
def test_permissions(mode: str, listed: bool, other: bool) -> None:
    permission = Permission("allow_list" if mode == "allow_list" else "deny_list", frozenset({"a"}))
    assert (permission.allows("a"), permission.allows("b")) == (listed, other)
