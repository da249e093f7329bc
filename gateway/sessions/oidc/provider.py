"""The provider's side of the wire: its description, its keys, its tokens. Every answer is bounded in size and time.

Place: under service.py. Description and keys are kept for an hour; a token with a key that is not known makes the keys be
read again, since providers rotate them, but not more often than each ten seconds. It does not know our users.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
import orjson

from gateway.clock import Clock
from gateway.sessions.oidc.types import ProviderConfig, ProviderFailed

__all__ = ["Provider", "is_safe_url"]

Json = dict[str, Any]
TIMEOUT_S = 10.0
BYTES_MAX = 256 * 1024
KEPT_S = 3600.0
KEYS_AGAIN_S = 10.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(slots=True)
class _Kept:
    description: Json
    read_at: float
    keys: Mapping[str, Json] = field(default_factory=dict)
    keys_at: float | None = None


class Provider:
    """Whichever is configured: what is kept is kept per issuer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._turn = asyncio.Lock()

    async def description(self, config: ProviderConfig) -> Json:
        async with self._turn:
            return (await self._known(config)).description

    async def key(self, config: ProviderConfig, key_id: str | None) -> Json:
        """The JWK that a token names, or the only one there is."""
        async with self._turn:
            kept = await self._known(config)
            now = self._clock.monotonic()
            age_s = now - kept.keys_at if kept.keys_at is not None else float("inf")
            if age_s > KEPT_S or (_chosen(kept.keys, key_id) is None and age_s >= KEYS_AGAIN_S):
                found = await self._json("GET", _endpoint(kept.description, "jwks_uri"))
                rows = [row for row in found.get("keys", ()) if isinstance(row, dict)]
                kept.keys = {str(row.get("kid", number)): row for number, row in enumerate(rows)}
                kept.keys_at = now
            chosen = _chosen(kept.keys, key_id)
        if chosen is None:
            raise ProviderFailed("bad_token", "the token names a key that the provider does not publish")
        return chosen

    async def tokens(self, config: ProviderConfig, code: str, verifier: str) -> Json:
        """What the provider gives for a code."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": config.redirect_uri,
            "code_verifier": verifier,
            "client_id": config.client_id,
        }
        url = _endpoint(await self.description(config), "token_endpoint")
        headers = (
            {"authorization": _basic(config.client_id, config.client_secret)} if config.client_secret else {}
        )
        return await self._json("POST", url, data=form, headers=headers)

    async def userinfo(self, config: ProviderConfig, access_token: str) -> Json:
        """Nothing if the provider has no such endpoint."""
        description = await self.description(config)
        if "userinfo_endpoint" not in description:
            return {}
        url, headers = (
            _endpoint(description, "userinfo_endpoint"),
            {"authorization": f"Bearer {access_token}"},
        )
        return await self._json("GET", url, headers=headers)

    async def _known(self, config: ProviderConfig) -> _Kept:
        kept, now = self._kept.get(config.issuer), self._clock.monotonic()
        if kept is None or now - kept.read_at > KEPT_S:
            url = config.issuer.rstrip("/") + "/.well-known/openid-configuration"
            found = await self._json("GET", url)
            if found.get("issuer") != config.issuer:
                raise ProviderFailed("bad_provider", f"the provider calls itself {found.get('issuer')!r}")
            self._kept = {config.issuer: _Kept(found, now)}
        return self._kept[config.issuer]

    async def _json(self, method: str, url: str, **options: Any) -> Json:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as http,
                http.request(method, url, allow_redirects=False, **options) as answer,
            ):
                body = await answer.content.read(BYTES_MAX + 1)
                if not answer.content.at_eof() and len(body) <= BYTES_MAX:
                    body += await answer.content.read(BYTES_MAX + 1 - len(body))
                status = answer.status
            found = orjson.loads(body) if len(body) <= BYTES_MAX else None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise ProviderFailed("provider_unavailable", f"{url}: {type(error).__name__}: {error}") from None
        if status != 200 or not isinstance(found, dict):
            said = found.get("error") if isinstance(found, dict) else None
            raise ProviderFailed("provider_refused", f"{url}: {status} {said}")
        return found


def _basic(client_id: str, secret: str) -> str:
    """Both are form-encoded before they are joined (RFC 6749, 2.3.1)."""
    joined = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return "Basic " + base64.b64encode(joined.encode()).decode()


def is_safe_url(url: str) -> bool:
    """https, or http to this machine."""
    try:
        parts = urlsplit(url)
        return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    except ValueError:
        return False


def _endpoint(description: Json, name: str) -> str:
    url = description.get(name)
    if not isinstance(url, str) or not is_safe_url(url):
        raise ProviderFailed("bad_provider", f"the provider's {name} is {url!r}")
    return url


def _chosen(keys: Mapping[str, Json], key_id: str | None) -> Json | None:
    if key_id is None:
        return next(iter(keys.values())) if len(keys) == 1 else None
    return keys.get(key_id)
