"""Sealed answers: readable by who sealed them for the same row, and unlike each other."""

import os

from gateway.idempotency import Seal

OWNER = b"proj_a\0key"


def test_only_the_same_key_and_row_open_it() -> None:
    seal = Seal(b"master", os.urandom)
    sealed = seal.close(b"an answer", OWNER)
    assert b"answer" not in sealed
    assert seal.open(sealed, OWNER) == b"an answer"
    assert Seal(b"master", os.urandom).open(sealed, OWNER) == b"an answer"
    assert seal.open(sealed, b"proj_b\0key") is None
    assert Seal(b"another", os.urandom).open(sealed, OWNER) is None
    assert seal.open(sealed[:-1] + bytes([sealed[-1] ^ 1]), OWNER) is None
    assert seal.close(b"an answer", OWNER) != sealed
