"""What an external pool's engines ask for: sealed for one pool, opened where they are called, certificates that hold."""

from __future__ import annotations

import os

import pytest

from gateway.ids import PoolId
from gateway.keyring import Keyring, Keys
from gateway.pool.access import PoolAccess, trusting
from gateway.settings import SettingsError
from tests.certificates import Authority

ONE, OTHER = PoolId("pool_1"), PoolId("pool_2")


def access(secret: bytes = b"a-master-key") -> PoolAccess:
    return PoolAccess(lambda: Keyring(Keys({"m1": secret})), os.urandom)


def test_a_key_is_opened_for_its_pool_alone() -> None:
    ours = access()
    sealed = ours.seal(ONE, "their-key")
    assert b"their-key" not in sealed
    found = ours.of(ONE, sealed, None)
    assert found is not None
    assert (found.api_key, found.tls) == ("their-key", None)
    assert "their-key" not in repr(found)
    assert ours.of(ONE, sealed, None) is found, "connections are kept as long as nothing changes"
    moved = ours.of(OTHER, sealed, None)
    assert moved is not None
    assert moved.api_key is None
    foreign = access(b"another").of(ONE, sealed, None)
    assert foreign is not None
    assert foreign.api_key is None


def test_nothing_is_asked_for() -> None:
    def no_ring() -> Keyring:
        raise SettingsError("no master key here")

    assert PoolAccess(no_ring, os.urandom).of(ONE, None, None) is None
    sealed = access().seal(ONE, "their-key")
    found = PoolAccess(no_ring, os.urandom).of(ONE, sealed, None)
    assert found is not None
    assert found.api_key is None, "a process without the master key goes on without it"


def test_only_certificates_of_authorities_are_trusted() -> None:
    authority = Authority.made()
    assert len(trusting(authority.pem + Authority.made("b").pem).get_ca_certs()) == 2
    for wrong in ("", "hello", authority.pem.replace("CERTIFICATE", "PUBLIC KEY"), authority.pem[:-60]):
        with pytest.raises(ValueError, match="ca_bundle"):
            trusting(wrong)
