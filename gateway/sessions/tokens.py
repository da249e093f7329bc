"""What a browser proves its session with: a short JWT for each request, and a token that is good for one refresh.

Both are made with keys that are derived from the master keys, so rotating those rotates these. A refresh token is
computed, not stored: from the session's salt (in the database), the number of the refresh and a derived key. So every
older one is recognised for ever, and neither the database alone nor the key alone lets anybody in.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import jwt

from gateway.clock import Clock
from gateway.keyring import Keyring
from gateway.sessions.errors import SessionOver
from gateway.sessions.types import SessionRow

__all__ = ["ACCESS_TTL", "AccessTokens", "RefreshToken", "RefreshTokens", "mac_of"]

ALGORITHM = "HS256"
ISSUER = "tollway"
AUDIENCE = "tollway-console"
ACCESS_TTL = timedelta(minutes=5)
SKEW = timedelta(seconds=30)
"""Between the clocks of gateways."""
_CLAIMS = ["iss", "aud", "sub", "sid", "iat", "exp"]
_REFRESH = re.compile(r"(session_[0-9a-f]{32})\.(\d{1,9})\.([a-z0-9]{1,16})\.([A-Za-z0-9_-]{43})")


class AccessTokens:
    def __init__(self, ring: Keyring, clock: Clock) -> None:
        self._ring = ring
        self._clock = clock

    def make(self, session_id: str, user_id: str) -> tuple[str, datetime]:
        """The token, and when it ends."""
        now = self._clock.now()
        ends = now + ACCESS_TTL
        name, secret = self._ring.current()
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": user_id,
            "sid": session_id,
            "iat": int(now.timestamp()),
            "exp": int(ends.timestamp()),
        }
        return jwt.encode(claims, _derived(secret, b"access"), ALGORITHM, {"kid": name}), ends

    def session_of(self, token: str, *, even_if_old: bool = False) -> tuple[str, str]:
        """The ids of session and user. Raises SessionOver for anything that is not a good token of ours."""
        try:
            name = jwt.get_unverified_header(token).get("kid")
            secret = self._ring.get(name) if isinstance(name, str) else None
            if secret is None:
                raise SessionOver
            claims = jwt.decode(
                token,
                _derived(secret, b"access"),
                algorithms=[ALGORITHM],
                audience=AUDIENCE,
                issuer=ISSUER,
                # Times are judged below, by the clock that everything here goes by.
                options={"require": _CLAIMS, "verify_exp": False, "verify_iat": False, "verify_nbf": False},
            )
            made, ends = (datetime.fromtimestamp(int(claims[name]), UTC) for name in ("iat", "exp"))
        except (jwt.PyJWTError, ValueError, OverflowError, OSError, TypeError):
            raise SessionOver from None
        now = self._clock.now()
        if made > now + SKEW or (now >= ends and not even_if_old):
            raise SessionOver
        return str(claims["sid"]), str(claims["sub"])


@dataclass(frozen=True, slots=True)
class RefreshToken:
    session_id: str
    generation: int
    key_id: str
    mac: str = field(repr=False)


class RefreshTokens:
    def __init__(self, ring: Keyring) -> None:
        self._ring = ring

    def make(self, row: SessionRow) -> str:
        """The session's newest."""
        name, secret = self._ring.current()
        return f"{row.id}.{row.generation}.{name}.{_mac(secret, row, row.generation)}"

    def parse(self, text: str) -> RefreshToken | None:
        match = _REFRESH.fullmatch(text)
        return RefreshToken(match[1], int(match[2]), match[3], match[4]) if match else None

    def proves(self, token: RefreshToken, row: SessionRow) -> bool:
        """It was made for this session, once."""
        secret = self._ring.get(token.key_id)
        good = secret is not None and hmac.compare_digest(_mac(secret, row, token.generation), token.mac)
        return good and token.session_id == row.id


def mac_of(secret: bytes, purpose: bytes, text: bytes) -> str:
    """As tokens have it. What was made for one purpose proves nothing for another."""
    digest = hmac.digest(_derived(secret, purpose), text, "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _mac(secret: bytes, row: SessionRow, generation: int) -> str:
    return mac_of(secret, b"refresh", row.salt + f"\0{row.id}\0{generation}".encode())


def _derived(secret: bytes, purpose: bytes) -> bytes:
    return hashlib.sha256(b"tollway console " + purpose + b"\0" + secret).digest()
