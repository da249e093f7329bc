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
    peppers = Peppers.of(p1=PEPPER)
    key = ApiKey("abcdefgh", "s" * 43)
    _, stored = peppers.stored(key)
    assert len(stored) == 32
    assert peppers.proves(key, stored, "p1")
    assert not peppers.proves(ApiKey("abcdefgh", "s" * 42 + "t"), stored, "p1")
    assert not peppers.proves(ApiKey("abcdefgi", "s" * 43), stored, "p1")
    assert not Peppers.of(p1=PEPPER + b"x").proves(key, stored, "p1")


class Unequal(bytes):
    """Nobody compares it as bytes compare, which end at the first difference."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared in a time that tells how near it came")

    __hash__ = bytes.__hash__


def test_how_near_a_wrong_key_came_shows_in_no_time() -> None:
    peppers = Peppers.of(p1=PEPPER)
    key = ApiKey("abcdefgh", "s" * 43)
    stored = Unequal(peppers.stored(key)[1])
    with pytest.raises(AssertionError):
        assert stored == stored[:-1]
    assert peppers.proves(key, stored, "p1")
    assert not peppers.proves(ApiKey("abcdefgh", "s" * 42 + "t"), stored, "p1")


def test_older_pepper_still_proves_and_a_lost_one_does_not() -> None:
    key = ApiKey("abcdefgh", "s" * 43)
    _, stored = Peppers.of(p1=PEPPER).stored(key)
    rotated = Peppers.of(p2=b"another pepper!!", p1=PEPPER)
    assert rotated.proves(key, stored, "p1")
    assert not rotated.proves(key, rotated.stored(key)[1], "p1")
    assert not Peppers.of(p2=PEPPER).proves(key, stored, "p1")


def test_peppers_come_from_files(tmp_path: Path) -> None:
    file, key = tmp_path / "pepper", ApiKey("abcdefgh", "s" * 43)
    settings = SecuritySettings(key_pepper_file=file)
    file.write_text("the only pepper, which has spaces\n")
    assert Peppers.from_settings(settings).stored(key)[0] == "p1"
    file.write_text("p2:the-pepper-of-today\n\np1:the-pepper-of-before\n")
    peppers = Peppers.from_settings(settings)
    assert peppers.stored(key)[0] == "p2"
    assert (peppers.is_old("p1"), peppers.is_old("p2")) == (True, False)
    for name, pepper in (("p1", b"the-pepper-of-before"), ("p2", b"the-pepper-of-today")):
        assert peppers.proves(key, Peppers.of(**{name: pepper}).stored(key)[1], name)


def test_missing_or_short_pepper_stops_the_boot() -> None:
    with pytest.raises(ValueError, match="TOLLWAY_SECURITY__KEY_PEPPER_FILE"):
        Peppers.from_settings(SecuritySettings())
    with pytest.raises(ValueError, match="shorter than 16"):
        Peppers.from_settings(SecuritySettings(key_pepper=SecretStr("short")))


def test_secrets_are_in_no_repr() -> None:
    assert "sss" not in repr(ApiKey("abcdefgh", "s" * 43))
    assert "pepper" not in repr(Peppers.of(p1=PEPPER)).lower().replace("peppers", "")


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
