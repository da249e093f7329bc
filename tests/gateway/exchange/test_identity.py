"""Pseudonyms: stable, opaque, different between tenants and purposes."""

from __future__ import annotations

import pytest

from gateway.exchange.identity import Pseudonyms
from gateway.ids import KeyId, TenantId
from gateway.tenancy.principal import Principal


def principal(tenant: str, group: str | None = None) -> Principal:
    return Principal(TenantId(tenant), KeyId("key"), frozenset(), cache_sharing_group=group)


def test_stable_and_different() -> None:
    one, two = Pseudonyms(b"secret"), Pseudonyms(b"secret")
    a, b = principal("a"), principal("b")
    for name in ("fairness_id", "cache_salt"):
        assert getattr(one, name)(a) == getattr(two, name)(a)
        assert getattr(one, name)(a) != getattr(one, name)(b)
        assert getattr(one, name)(a) != getattr(Pseudonyms(b"other"), name)(a)
    assert not one.cache_salt(a).startswith(one.fairness_id(a))


def test_a_sharing_group_shares_and_is_no_tenants_name() -> None:
    names = Pseudonyms(b"secret")
    assert names.cache_salt(principal("a", "g")) == names.cache_salt(principal("b", "g"))
    assert names.cache_salt(principal("a", "g")) != names.cache_salt(principal("g"))


def test_users_are_their_tenants() -> None:
    names = Pseudonyms(b"secret")
    assert names.user_ref(principal("a"), None) is None
    assert names.user_ref(principal("a"), "u") != names.user_ref(principal("b"), "u")
    assert names.user_ref(principal("a"), "u") == names.user_ref(principal("a"), "u")


def test_needs_a_key() -> None:
    with pytest.raises(AssertionError):
        Pseudonyms(b"")
