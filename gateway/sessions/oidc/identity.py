"""An ID token → who it is: signature, issuer, audience, time and nonce, and nothing taken on trust.

Only asymmetric algorithms are believed, whatever the token says. An address counts only if the provider says that it is
verified. It opens no connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt

from gateway.clock import Clock
from gateway.sessions.oidc.types import Claims, ProviderConfig, ProviderFailed

__all__ = ["claims_of", "key_id_of_token", "proved"]

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
SKEW = timedelta(seconds=60)
TEXT_MAX = 254
_REQUIRED = ["iss", "aud", "sub", "exp", "iat"]


def key_id_of_token(token: str) -> str | None:
    """Unproved: for looking the key up."""
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError as error:
        raise ProviderFailed("bad_token", str(error)) from None
    if header.get("alg") not in ALGORITHMS:
        raise ProviderFailed("bad_token", f"the token is signed with {header.get('alg')!r}")
    name = header.get("kid")
    return name if isinstance(name, str) else None


def proved(
    token: str, jwk: Mapping[str, Any], config: ProviderConfig, nonce: str, clock: Clock
) -> Mapping[str, Any]:
    """The token's claims. Raises ProviderFailed for anything that is not a fresh token for this sign-in."""
    key_id_of_token(token)  # its algorithm is one of ours
    try:
        key = jwt.PyJWK(dict(jwk), algorithm=str(jwt.get_unverified_header(token)["alg"]))
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(ALGORITHMS),
            audience=config.client_id,
            issuer=config.issuer,
            options={"require": _REQUIRED, "verify_exp": False, "verify_iat": False, "verify_nbf": False},
        )
        made, ends = (datetime.fromtimestamp(int(claims[name]), UTC) for name in ("iat", "exp"))
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError, OSError, KeyError) as error:
        raise ProviderFailed("bad_token", f"{type(error).__name__}: {error}") from None
    now = clock.now()
    if now >= ends + SKEW or made > now + SKEW:
        raise ProviderFailed("bad_token", "the token is of another time")
    several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if claims.get("azp", None if several else config.client_id) != config.client_id:
        raise ProviderFailed("bad_token", "the token was made for another client")
    if claims.get("nonce") != nonce:
        raise ProviderFailed("bad_token", "the token belongs to another sign-in")
    if not isinstance(claims["sub"], str) or not 0 < len(claims["sub"]) <= TEXT_MAX:
        raise ProviderFailed("bad_token", "the token names nobody")
    return claims


def claims_of(config: ProviderConfig, token: Mapping[str, Any], userinfo: Mapping[str, Any]) -> Claims:
    """What the token lacks is taken from the user's endpoint, which has to speak of the same subject."""
    if userinfo and userinfo.get("sub") != token["sub"]:
        raise ProviderFailed("bad_token", "the provider's user endpoint speaks of somebody else")
    everything = {**userinfo, **token}
    source = token if "email" in token else userinfo
    email, is_verified = source.get("email"), source.get("email_verified") is True
    name = everything.get("name")
    address = email.strip().lower() if isinstance(email, str) else ""
    good = 3 <= len(address) <= TEXT_MAX and "@" in address and address.isprintable()
    return Claims(
        config.issuer,
        token["sub"],
        address if is_verified and good else None,
        name.strip()[:200] if isinstance(name, str) and name.strip() and name.isprintable() else None,
        everything,
    )
