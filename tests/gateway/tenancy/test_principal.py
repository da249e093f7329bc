"""The principal's own rules."""

import pytest

from gateway.errors import InsufficientPermissions
from gateway.ids import KeyId, TenantId
from gateway.tenancy import AdminPrincipal, Principal


def test_missing_scope_is_named() -> None:
    who = Principal(TenantId("proj_a"), KeyId("key_a"), frozenset({"model.request"}))
    who.require("model.request")
    with pytest.raises(InsufficientPermissions, match=r"usage\.read"):
        who.require("usage.read")
    assert AdminPrincipal(KeyId("key_b"), frozenset({"owner", "member"})).is_member
    assert not AdminPrincipal(KeyId("key_b"), frozenset({"owner"})).is_member


def test_quota_key_outlives_rotation() -> None:
    first = Principal(TenantId("proj_a"), KeyId("key_a"), frozenset())
    rotated = Principal(TenantId("proj_a"), KeyId("key_b"), frozenset(), lineage_id=KeyId("key_a"))
    assert first.quota_key_id == rotated.quota_key_id == "key_a"
