"""Keys: format, proof and mask. No database."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from gateway.errors import InvalidApiKey, MissingCredentials
from gateway.settings import SecuritySettings
from gateway.tenancy.keys import ApiKey, Peppers, bearer_key, generate_key, mask_key, parse_key

PEPPER = b"pepper pepper pepper"


@given(st.binary(min_size=37, max_size=37))
def test_every_generated_key_has_the_format_and_parses_to_itself(randomness: bytes) -> None:
    parts = iter([randomness[:5], randomness[5:]])
    key = generate_key(lambda n: next(parts))
    prefix, public, secret = key.value.split("-", 2)
    assert (prefix, len(public), len(secret)) == ("tw", 8, 43)
    assert parse_key(key.value) == key


def test_stored_digest_proves_the_key_and_no_other() -> None:
    peppers = Peppers("p1", {"p1": PEPPER})
    key = ApiKey("abcdefgh", "s" * 43)
    stored = peppers.digest(key)
    assert len(stored) == 32
    assert peppers.proves(key, stored, "p1")
    assert not peppers.proves(ApiKey("abcdefgh", "s" * 42 + "t"), stored, "p1")
    assert not peppers.proves(ApiKey("abcdefgi", "s" * 43), stored, "p1")
    assert not Peppers("p1", {"p1": PEPPER + b"x"}).proves(key, stored, "p1")


def test_older_pepper_still_proves_and_a_lost_one_does_not() -> None:
    key = ApiKey("abcdefgh", "s" * 43)
    stored = Peppers("p1", {"p1": PEPPER}).digest(key)
    rotated = Peppers("p2", {"p2": b"another pepper!!", "p1": PEPPER})
    assert rotated.proves(key, stored, "p1")
    assert not rotated.proves(key, rotated.digest(key), "p1")
    assert not Peppers("p2", {"p2": PEPPER}).proves(key, stored, "p1")


def test_peppers_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "now").write_text("the pepper of today\n")
    (tmp_path / "old").write_text("p1:the pepper of before\n\np0:the first of all of them\n")
    peppers = Peppers.from_settings(
        SecuritySettings(
            key_pepper_file=tmp_path / "now", key_pepper_id="p2", old_key_peppers_file=tmp_path / "old"
        )
    )
    key = ApiKey("abcdefgh", "s" * 43)
    for name, pepper in (("p1", b"the pepper of before"), ("p2", b"the pepper of today")):
        assert peppers.proves(key, Peppers(name, {name: pepper}).digest(key), name)


def test_missing_or_short_pepper_stops_the_boot() -> None:
    with pytest.raises(ValueError, match="TOLLWAY_SECURITY__KEY_PEPPER_FILE"):
        Peppers.from_settings(SecuritySettings())
    with pytest.raises(ValueError, match="shorter than 16"):
        Peppers.from_settings(SecuritySettings(key_pepper=SecretStr("short")))


def test_secrets_are_in_no_repr() -> None:
    assert "sss" not in repr(ApiKey("abcdefgh", "s" * 43))
    assert "pepper" not in repr(Peppers("p1", {"p1": PEPPER})).lower().replace("peppers", "")


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Basic dXNlcg==", "tw-abcdefgh-x", "Bearer a b"]
)
def test_no_or_malformed_authorization(header: str | None) -> None:
    with pytest.raises(MissingCredentials):
        bearer_key(header)


@pytest.mark.parametrize(
    "value", ["x", "tw-abcdefgh-short", "sk-proj-" + "a" * 40, "tw-ABCDEFGH-" + "s" * 43]
)
def test_what_is_not_our_key_is_an_invalid_key(value: str) -> None:
    with pytest.raises(InvalidApiKey) as caught:
        bearer_key(f"bearer {value}")
    assert value not in caught.value.message or len(value) < 3


def test_scheme_is_case_insensitive() -> None:
    assert bearer_key("bEaReR tw-abcdefgh-" + "s" * 43).public_id == "abcdefgh"


@given(st.text(max_size=80))
def test_mask_shows_little_of_anything(value: str) -> None:
    masked = mask_key(value)
    assert "***" in masked
    shown = [character for part in masked.split("***") for character in part]
    assert len(shown) <= max(7, len(value) // 3 + 1) or parse_key(value) is not None


def test_mask_of_a_key_names_it() -> None:
    assert mask_key("tw-abcdefgh-" + "s" * 39 + "WXYZ") == "tw-abcdefgh-***WXYZ"
