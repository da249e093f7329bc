"""The server's secrets in their files: read, added to, dropped, and what is sealed under them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gateway.keyring import Keyring, Keys, SecretBox, added, parse_keys, render_keys, without, write_keys
from gateway.settings import SettingsError

OWNER = b"proj_a\0key"


def box(keys: Keys, purpose: str = "idempotency") -> SecretBox:
    return SecretBox(Keyring(keys), purpose, os.urandom)


def test_a_file_is_one_secret_or_lines_with_ids() -> None:
    for plain in (b"with spaces", b"A:b", b"\xff\x00:\xfe", b"two\nlines", b"k1:one\nand more"):
        assert parse_keys(plain + b"\n", "k7").by_id == {"k7": plain}
    spaced = Keys({"k2": b"new", "k1": b"an old one: with spaces"})
    assert parse_keys(render_keys(spaced), "k7") == spaced
    for broken in (b"two\nlines", b"", b"line\r"):
        with pytest.raises(SettingsError):
            render_keys(Keys({"k2": b"new", "k1": broken}))
    many = parse_keys(b"k2:new\n\nk1:old\nroot:00ff\n", "k7")
    assert (dict(many.by_id), many.current_id, many.root) == ({"k2": b"new", "k1": b"old"}, "k2", b"\0\xff")
    assert parse_keys(render_keys(many), "k7") == many
    assert "new" not in repr(many)


def test_keys_are_added_stand_by_and_go() -> None:
    first = Keys({"p1": b"one"})
    second = added(first, os.urandom)
    assert list(second.by_id) == ["p2", "p1"]
    waiting = added(second, os.urandom, standby=True)
    assert list(waiting.by_id) == ["p2", "p3", "p1"]
    assert list(added(waiting, os.urandom).by_id) == ["p3", "p2", "p1"], (
        "the one that stands by, not a fourth"
    )
    for wrong in ("p2", "p9"):
        with pytest.raises(SettingsError):
            without(second, wrong)
    alone = without(second, "p1")
    assert list(alone.by_id) == ["p2"]
    assert alone.derived_root() == first.derived_root() == hashlib.sha256(b"tollway pseudonyms\0one").digest()
    assert added(alone, os.urandom).derived_root() == first.derived_root(), (
        "salts and pseudonyms stay what they are"
    )


def test_a_running_process_follows_its_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("plain")
    ring = Keyring.of_file(path, "m1", "NAME")
    assert ring.current() == ("m1", b"plain")
    write_keys(path, added(ring.keys, os.urandom))
    assert path.stat().st_mode & 0o777 == 0o600
    assert ring.get("m2") is not None, "an id that is not known makes it look"
    assert ring.current()[0] == "m2"
    path.write_bytes(b"\xff\xfe")
    assert ring.current()[0] == "m2", "what cannot be read changes nothing"
    path.unlink()
    assert ring.get("m9") is None
    assert ring.get("m1") == b"plain"
    for content in ("", "root:00\n"):
        path.write_text(content)
        with pytest.raises(SettingsError, match="NAME"):
            Keyring.of_file(path, "m1", "NAME")


def test_what_is_sealed_opens_for_its_owner_purpose_and_keys_only() -> None:
    keys = Keys({"m1": b"master"})
    sealed = box(keys).close(b"an answer", OWNER)
    assert b"answer" not in sealed
    rotated = added(keys, os.urandom)
    for other in (keys, rotated):
        assert box(other).open(sealed, OWNER) == b"an answer"
    assert box(keys).is_current(sealed)
    assert not box(rotated).is_current(sealed)
    assert box(keys).open(sealed, b"proj_b\0key") is None
    assert box(keys, "webhooks").open(sealed, OWNER) is None
    assert box(without(rotated, "m1")).open(sealed, OWNER) is None
    assert box(keys).open(sealed[:-1] + bytes([sealed[-1] ^ 1]), OWNER) is None
    assert box(keys).close(b"an answer", OWNER) != sealed
    for cut in range(len(sealed)):
        assert box(keys).open(sealed[:cut], OWNER) is None


def test_what_was_sealed_before_there_were_ids_still_opens() -> None:
    """Whatever byte its nonce begins with, the mark of the newer format included."""
    cipher = AESGCM(hashlib.sha256(b"tollway idempotency\0old").digest())
    for first in (b"\x02\x02m1", b"\x02\xff\0\0", b"abcd"):
        nonce = first + bytes(8)
        sealed = nonce + cipher.encrypt(nonce, b"an answer", OWNER)
        for keys in (Keys({"m1": b"old"}), Keys({"m2": b"new", "m1": b"old"})):
            assert box(keys).open(sealed, OWNER) == b"an answer"
