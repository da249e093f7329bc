"""Signing in through an OpenID provider: how it is configured, the way there, and the way back.

`start` and `callback` are where a browser goes itself, so they answer with redirections, errors too: the sign-in page
shows what `?error=` says. The state of a sign-in is in a cookie that goes along when the provider sends the browser back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from gateway.errors import InvalidValue, NotFound
from gateway.http.admin.common import AdminParts, Body, Json, Name, actor_of
from gateway.http.admin.sessions import visit_in
from gateway.http.browser import REFRESH_PATH
from gateway.sessions.oidc.provider import is_safe_url
from gateway.sessions.oidc.service import WAY_LASTS
from gateway.sessions.oidc.types import ProviderConfig, ProviderFailed
from gateway.tenancy.principal import Role

__all__ = ["OidcRoutes"]

CONSOLE = "/console/"
SIGN_IN_PAGE = "/console/sign-in"
START = f"{REFRESH_PATH}/oidc/start"
Url = Annotated[str, Field(min_length=8, max_length=500)]
Word = Annotated[str, Field(min_length=1, max_length=200)]


class ProviderBody(Body):
    """`client_secret`: null keeps the one that is stored, an empty one takes it away."""

    issuer: Url
    client_id: Word
    client_secret: Annotated[str | None, Field(max_length=500)] = None
    name: Annotated[Name, Field(min_length=1, max_length=60)] = "single sign-on"
    origin: Url
    scopes: Annotated[list[Word], Field(min_length=1, max_length=20)] = ["openid", "email", "profile"]  # noqa: RUF012
    role_claim: Word | None = None
    role_map: Annotated[dict[Word, Role], Field(max_length=100)] = {}  # noqa: RUF012
    allows_registration: bool = False
    default_role: Literal["viewer", "member"] = "member"
    enabled: bool = True


class OidcRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._oidc = parts.oidc

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/identity_provider", self.retrieve, methods=["GET"])
        router.add_api_route("/identity_provider", self.put, methods=["POST"])
        router.add_api_route("/identity_provider", self.delete, methods=["DELETE"])
        router.add_api_route("/sessions/methods", self.methods, methods=["GET"])
        # Where a browser goes itself: no client calls these.
        for name, go in (("start", self.start), ("callback", self.callback)):
            router.add_api_route(f"/sessions/oidc/{name}", go, methods=["GET"], include_in_schema=False)

    async def retrieve(self) -> Json:
        async with self._p.database.read() as session:
            found = await self._oidc.repository.provider(session)
        if found is None:
            raise NotFound("No identity provider is configured.")
        return _shown(found[0], has_secret=found[1] is not None)

    async def put(self, request: Request, body: ProviderBody) -> Json:
        """Replaces what is configured. `origin` is the console's own, and the provider is told
        `<origin>/v1/organization/sessions/oidc/callback` as the place to come back to."""
        for name, url in (("issuer", body.issuer), ("origin", body.origin)):
            if not is_safe_url(url) or urlsplit(url).query or urlsplit(url).fragment:
                raise InvalidValue("This has to be an https address (or http on this machine).", name)
        if urlsplit(body.origin).path:
            raise InvalidValue("An origin has neither path nor slash at its end.", "origin")
        if "openid" not in body.scopes:
            raise InvalidValue("Without the scope openid there is no sign-in.", "scopes")
        config = ProviderConfig(
            body.issuer,
            body.client_id,
            body.name,
            body.origin,
            body.client_secret or None,
            tuple(body.scopes),
            body.role_claim,
            body.role_map,
            body.allows_registration,
            body.default_role,
            body.enabled,
        )
        async with self._p.database.write() as session:
            await self._oidc.put(session, actor_of(request), config, keeps_secret=body.client_secret is None)
        return await self.retrieve()

    async def delete(self, request: Request) -> Json:
        """Sessions that were begun through it stay; passwords go on working."""
        async with self._p.database.write() as session:
            await self._oidc.delete(session, actor_of(request))
        return {"object": "organization.identity_provider.deleted", "deleted": True}

    async def methods(self) -> Json:
        """Open: what the sign-in page offers. `start_path` is a link, with `?return_to=` a page of the console."""
        config = await self._oidc.config()
        oidc = {"name": config.name, "start_path": START} if config is not None else None
        return {
            "object": "organization.session.methods",
            "password": True,
            "password_reset": "mail" if self._p.mail is not None else "owner",
            "oidc": oidc,
        }

    async def start(self, return_to: Annotated[str, Query(max_length=500)] = CONSOLE) -> Response:
        """Open: sends the browser to the provider."""
        try:
            way = await self._oidc.start(return_to if _is_own_page(return_to) else CONSOLE)
        except ProviderFailed as error:
            return _to(f"{SIGN_IN_PAGE}?error={quote(error.code)}")
        answer = _to(way.url)
        lasts_s = int(WAY_LASTS.total_seconds())
        answer.headers.append("set-cookie", _way_cookie(way.config.origin, way.cookie, lasts_s))
        return answer

    async def callback(
        self,
        request: Request,
        code: Annotated[str, Query(max_length=4096)] = "",
        state: Annotated[str, Query(max_length=200)] = "",
        error: Annotated[str, Query(max_length=200)] = "",
    ) -> Response:
        """Open: where the provider sends the browser back to."""
        visit = visit_in(request)
        try:
            if error or not code:
                raise ProviderFailed("provider_refused", error)
            grant, page = await self._oidc.finish(code, state, visit.way or "", visit.place)
        except ProviderFailed as failed:
            answer = _to(f"{SIGN_IN_PAGE}?error={quote(failed.code)}")
            answer.headers.append("set-cookie", _way_cookie(visit.origin, "", 0))
            return answer
        config = await self._oidc.config()
        answer = _to(page)
        known = replace(visit, origin=config.origin) if config is not None else visit
        for name, value in known.cookies(grant):
            answer.headers.append(name, value)
        answer.headers.append("set-cookie", _way_cookie(known.origin, "", 0))
        return answer


def _is_own_page(path: str) -> bool:
    """A page of the console and no other place: browsers read `//` and `/\\` as another host."""
    return path.startswith(CONSOLE) and "\\" not in path and "//" not in path and path.isprintable()


def _to(url: str) -> Response:
    return Response(status_code=303, headers={"location": url})


def _way_cookie(origin: str, value: str, lasts_s: int) -> str:
    """`Lax`: it has to come along when another site sends the browser back."""
    flags = "HttpOnly; SameSite=Lax" + ("; Secure" if origin.startswith("https:") else "")
    return f"tollway-oidc={value}; Path={REFRESH_PATH}/oidc; Max-Age={lasts_s}; {flags}"


def _shown(config: ProviderConfig, *, has_secret: bool) -> Json:
    return {
        "object": "organization.identity_provider",
        "issuer": config.issuer,
        "client_id": config.client_id,
        "has_client_secret": has_secret,
        "name": config.name,
        "origin": config.origin,
        "redirect_uri": config.redirect_uri,
        "scopes": list(config.scopes),
        "role_claim": config.role_claim,
        "role_map": dict(config.role_map),
        "allows_registration": config.registers,
        "default_role": config.default_role,
        "enabled": config.is_enabled,
    }
