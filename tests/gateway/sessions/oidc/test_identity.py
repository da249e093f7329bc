"""ID tokens by themselves: what the flow over HTTP cannot make a library write."""

from __future__ import annotations

from typing import Any

import jwt
import pytest
from joserfc.jwk import ECKey, OctKey

from gateway.sessions.oidc.identity import claims_of, key_id_of_token, proved
from gateway.sessions.oidc.types import ProviderConfig, ProviderFailed
from tests.fakes.clock import ManualClock

CONFIG = ProviderConfig("https://p.example", "client", "P", "https://c.example")
KEY = ECKey.generate_key("P-256", {"kid": "k1"})
NOW_S = int(ManualClock().now().timestamp())
GOOD = {"iss": CONFIG.issuer, "aud": "client", "sub": "s", "iat": NOW_S, "exp": NOW_S + 60, "nonce": "n"}


def test_a_good_token_is_believed_until_a_minute_after_its_end() -> None:
    token = jwt.encode(GOOD, KEY.as_pem(private=True), "ES256", {"kid": "k1"})
    public, clock = KEY.as_dict(private=False), ManualClock()
    assert key_id_of_token(token) == "k1"
    assert proved(token, public, CONFIG, "n", clock)["sub"] == "s"
    clock.advance(119)
    assert proved(token, public, CONFIG, "n", clock)
    clock.advance(1)
    with pytest.raises(ProviderFailed):
        proved(token, public, CONFIG, "n", clock)


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_a_published_key_is_no_shared_secret(algorithm: str) -> None:
    """Neither unsigned nor signed with what everybody can read."""
    public = KEY.as_dict(private=False)
    secret = "" if algorithm == "none" else str(public["x"]).ljust(32, "-")
    token = jwt.encode(GOOD, secret, algorithm, {"kid": "k1"})
    with pytest.raises(ProviderFailed):
        key_id_of_token(token)
    for jwk in (public, OctKey.import_key(secret or "x" * 32).as_dict(private=True)):
        with pytest.raises(ProviderFailed):
            proved(token, jwk, CONFIG, "n", ManualClock())


@pytest.mark.parametrize(
    ("said", "email"),
    [
        ({"email": " Ann@Example.com", "email_verified": True}, "ann@example.com"),
        ({"email": "ann@example.com", "email_verified": "true"}, None),
        ({"email": "ann@example.com"}, None),
        ({"email": "ann", "email_verified": True}, None),
        ({"email": ["ann@example.com"], "email_verified": True}, None),
        ({"email": "a\u202enn@example.com", "email_verified": True}, None),
        ({"email": "a@" + "x" * 300, "email_verified": True}, None),
    ],
)
def test_only_a_verified_address_is_one(said: dict[str, Any], email: str | None) -> None:
    assert claims_of(CONFIG, {"sub": "s", **said}, {}).email == email
    assert claims_of(CONFIG, {"sub": "s"}, {"sub": "s", **said}).email == email


def test_verification_is_not_borrowed_from_the_other_place() -> None:
    """An address of the token with a verification of the user's endpoint is not a verified address."""
    userinfo = {"sub": "s", "email": "other@example.com", "email_verified": True}
    assert claims_of(CONFIG, {"sub": "s", "email": "ann@example.com"}, userinfo).email is None
    with pytest.raises(ProviderFailed):
        claims_of(CONFIG, {"sub": "s"}, {"sub": "t"})
