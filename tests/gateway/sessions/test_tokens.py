"""Tokens: only our own algorithm, audience, issuer and key are believed, and keys can be rotated."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import timedelta
from typing import Any

import jwt
import pytest

from gateway.keyring import Keyring, Keys
from gateway.sessions.errors import SessionOver
from gateway.sessions.tokens import ACCESS_TTL, AccessTokens, RefreshTokens
from gateway.sessions.types import SessionRow
from tests.fakes.clock import ManualClock
from tests.gateway.sessions.conftest import ring

SECRET = b"master key m1 of the tests"
SIGNING = hashlib.sha256(b"tollway console access\0" + SECRET).digest()
NOW = ManualClock().now()
NOW_S = int(NOW.timestamp())
ROW = SessionRow(
    id="session_" + "0" * 32,
    user_id="user_1",
    method="password",
    created_at=NOW,
    rotated_at=NOW,
    expires_at=NOW + timedelta(days=1),
    ended_at=None,
    generation=3,
    salt=b"salt" * 8,
    address=None,
    user_agent=None,
)


def signed(
    key: bytes | str = SIGNING, algorithm: str | None = "HS256", kid: str | None = "m1", **changes: Any
) -> str:
    good = {
        "iss": "tollway",
        "aud": "tollway-console",
        "sub": "user_1",
        "sid": "session_1",
        "iat": NOW_S,
        "exp": NOW_S + 300,
    }
    claims = {name: value for name, value in (good | changes).items() if value is not None}
    return jwt.encode(claims, key, algorithm, {"kid": kid} if kid is not None else {})


def test_a_token_is_good_until_it_ends() -> None:
    clock = ManualClock()
    tokens = AccessTokens(ring(), clock)
    token, ends = tokens.make("session_1", "user_1")
    assert ends == clock.now() + ACCESS_TTL
    assert jwt.get_unverified_header(token) == {"alg": "HS256", "kid": "m1", "typ": "JWT"}
    clock.advance(ACCESS_TTL.total_seconds() - 1)
    assert tokens.session_of(token) == ("session_1", "user_1")
    clock.advance(1)
    with pytest.raises(SessionOver):
        tokens.session_of(token)
    assert tokens.session_of(token, even_if_old=True) == ("session_1", "user_1")


def test_a_token_made_by_hand_with_the_same_key_is_good() -> None:
    """So that what the next test changes is the reason for its refusals."""
    assert AccessTokens(ring(), ManualClock()).session_of(signed()) == ("session_1", "user_1")


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x.y.z",
        signed(kid=None),
        signed(kid="m2"),
        signed(key=b"another key, as long as ours is, too"),
        signed(key=SECRET.ljust(32, b"-")),
        signed(key=SIGNING * 2, algorithm="HS512"),
        signed(key="", algorithm="none"),
        signed(iss="somebody"),
        signed(aud="somebody"),
        signed(sid=None),
        signed(sub=None),
        signed(exp=None),
        signed(iat=None),
        signed(exp=10**18),
        signed(iat=NOW_S + 3600, exp=NOW_S + 7200),
    ],
)
def test_nothing_else_is_believed(token: str) -> None:
    with pytest.raises(SessionOver):
        AccessTokens(ring(), ManualClock()).session_of(token, even_if_old=True)


def test_the_algorithm_is_not_the_tokens_to_choose() -> None:
    """Signed with our own key, and by another algorithm."""
    with pytest.raises(SessionOver):
        AccessTokens(ring(), ManualClock()).session_of(
            signed(algorithm="HS384", key=SIGNING.ljust(48, b"\0"))
        )
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        other = signed(algorithm="HS384")
    with pytest.raises(SessionOver):
        AccessTokens(ring(), ManualClock()).session_of(other)


def test_older_keys_are_good_until_they_are_dropped() -> None:
    clock = ManualClock()
    old, _ = AccessTokens(ring("m1"), clock).make("session_1", "user_1")
    both = AccessTokens(ring("m2", "m1"), clock)
    assert both.session_of(old) == ("session_1", "user_1")
    assert jwt.get_unverified_header(both.make("session_1", "user_1")[0])["kid"] == "m2"
    with pytest.raises(SessionOver):
        AccessTokens(ring("m2"), clock).session_of(old)


class Unequal(str):
    """Nobody compares it as texts compare, which end at the first difference."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared in a time that tells how near it came")

    __hash__ = str.__hash__


def test_how_near_a_wrong_refresh_token_came_shows_in_no_time() -> None:
    tokens = RefreshTokens(ring("m1"))
    token = tokens.parse(tokens.make(ROW))
    assert token is not None
    assert tokens.proves(replace(token, mac=Unequal(token.mac)), ROW)
    assert not tokens.proves(replace(token, mac=Unequal(token.mac[:-1] + "!")), ROW)


def test_a_refresh_token_proves_its_session_and_number() -> None:
    tokens = RefreshTokens(ring("m1"))
    text = tokens.make(ROW)
    token = tokens.parse(text)
    assert token is not None
    assert (token.session_id, token.generation, token.key_id) == (ROW.id, 3, "m1")
    assert token.mac not in repr(token)
    assert tokens.proves(token, replace(ROW, generation=9)), "an old one is known for what it is"
    assert not tokens.proves(replace(token, generation=4), ROW)
    assert not tokens.proves(token, replace(ROW, salt=b"other" * 8))
    assert not tokens.proves(token, replace(ROW, id="session_" + "1" * 32))
    assert RefreshTokens(ring("m2", "m1")).proves(token, ROW)
    assert not RefreshTokens(ring("m2")).proves(token, ROW)
    assert not RefreshTokens(Keyring(Keys({"m1": b"the same name, another key"}))).proves(token, ROW)
    for wrong in ("", text + "x", text.replace("session_", "sessions_"), text.upper(), "." * 3):
        assert tokens.parse(wrong) is None
