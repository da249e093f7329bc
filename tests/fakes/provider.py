"""An OpenID provider on this machine: a real authorization server with codes, PKCE, keys and a user's endpoint.

Made of another library than the one that the gateway reads tokens with. Nobody is asked anything: whoever comes is
`person`. What a broken or hostile provider might do is set on it.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from typing import Any
from urllib.parse import unquote, urlencode

from aiohttp import web
from aiohttp.test_utils import TestServer
from joserfc import jwt
from joserfc.jwk import RSAKey

__all__ = ["CLIENT", "SECRET", "FakeProvider"]

CLIENT, SECRET = "tollway", "client secret, not for everybody"


class FakeProvider:
    """`claims` change the next ID tokens (None takes one away); `omitted` are only in the user's endpoint."""

    def __init__(self, redirect_uri: str) -> None:
        self.redirect_uri = redirect_uri
        self.person: dict[str, Any] = {
            "sub": "subject-1",
            "email": "ann@example.com",
            "email_verified": True,
            "name": "Ann",
        }
        self.claims: dict[str, Any] = {}
        self.omitted: tuple[str, ...] = ()
        self.description: dict[str, Any] = {}
        self.algorithm = "RS256"
        self.signs_with: RSAKey | None = None
        """A key that is not published."""
        self.key_reads = 0
        self.key = self._fresh_key()
        self._codes: dict[str, dict[str, str]] = {}
        self._server: TestServer | None = None

    @property
    def issuer(self) -> str:
        assert self._server is not None
        return str(self._server.make_url("/tenant")).rstrip("/")

    def rotate_key(self) -> None:
        self.key = self._fresh_key()

    async def __aenter__(self) -> FakeProvider:
        app = web.Application()
        app.router.add_get("/tenant/.well-known/openid-configuration", self._describe)
        app.router.add_get("/tenant/authorize", self._authorize)
        app.router.add_post("/tenant/token", self._token)
        app.router.add_get("/tenant/keys", self._keys)
        app.router.add_get("/tenant/userinfo", self._userinfo)
        self._server = TestServer(app)
        await self._server.start_server()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        await self._server.close()

    async def _describe(self, request: web.Request) -> web.Response:
        found = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
        }
        return web.json_response(found | self.description)

    async def _authorize(self, request: web.Request) -> web.Response:
        query = request.query
        assert query["response_type"] == "code"
        assert (query["client_id"], query["redirect_uri"]) == (CLIENT, self.redirect_uri)
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        code = secrets.token_urlsafe(16)
        self._codes[code] = {"challenge": query["code_challenge"], "nonce": query["nonce"]}
        back = f"{self.redirect_uri}?{urlencode({'code': code, 'state': query['state']})}"
        return web.Response(status=302, headers={"location": back})

    async def _token(self, request: web.Request) -> web.Response:
        form = await request.post()
        scheme, login = request.headers["authorization"].split()
        client_id, secret = (unquote(part) for part in base64.b64decode(login).decode().split(":"))
        asked = self._codes.pop(str(form["code"]), None)
        digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        is_good = asked is not None and asked["challenge"] == challenge
        is_client = (scheme, client_id, secret) == ("Basic", CLIENT, SECRET)
        if asked is None or not is_good or not is_client or form["redirect_uri"] != self.redirect_uri:
            return web.json_response({"error": "invalid_grant"}, status=400)
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        claims |= {name: value for name, value in self.person.items() if name not in self.omitted}
        claims = {name: value for name, value in (claims | self.claims).items() if value is not None}
        header = {"alg": self.algorithm, "kid": self.key.kid}
        token = jwt.encode(header, claims, self.signs_with or self.key, algorithms=[self.algorithm])
        return web.json_response(
            {"access_token": "an access token", "token_type": "Bearer", "id_token": token}
        )

    async def _keys(self, request: web.Request) -> web.Response:
        self.key_reads += 1
        return web.json_response({"keys": [self.key.as_dict(private=False)]})

    async def _userinfo(self, request: web.Request) -> web.Response:
        assert request.headers["authorization"] == "Bearer an access token"
        return web.json_response(self.person)

    @staticmethod
    def _fresh_key() -> RSAKey:
        return RSAKey.generate_key(2048, {"kid": secrets.token_hex(4), "use": "sig"})
