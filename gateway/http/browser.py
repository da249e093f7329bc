"""A browser's request: where it says that it comes from, and its session's cookies.

Place: between a call and the admin routes. A browser sends cookies along with what other sites ask for, so a change is
believed only with our own Origin and a header that no other site can set without being refused by the browser. Cookies
that only https may carry have names that only https can set. It does not know whether a token is good.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from gateway.http.auth import Authenticator
from gateway.http.call import Call
from gateway.sessions import Grant, Place
from gateway.sessions.errors import Forged

__all__ = ["ACCESS_COOKIES", "CONSOLE_HEADER", "REFRESH_COOKIES", "Visit", "visit_of"]

CONSOLE_HEADER = b"x-tollway-console"
ACCESS_COOKIES = ("__Host-tollway", "tollway")
REFRESH_COOKIES = ("__Secure-tollway-refresh", "tollway-refresh")
"""Each over https, and over http."""
REFRESH_PATH = "/v1/organization/sessions"
COOKIE_CHARS_MAX = 4096


@dataclass(frozen=True, slots=True)
class Visit:
    place: Place
    origin: str
    """Of this server, as the browser knows it: `https://console.example.com`."""
    is_from_console: bool
    access: str | None = field(repr=False)
    refresh: str | None = field(repr=False)
    way: str | None = field(default=None, repr=False)
    """Of a sign-in through a provider that is on its way."""

    def require_console(self) -> None:
        """Raises 403 for a change that another site may have asked for."""
        if not self.is_from_console:
            raise Forged

    def cookies(self, grant: Grant) -> Iterator[tuple[str, str]]:
        """Set-Cookie headers. The access token's cookie outlives it, so that an old one is told from none."""
        lasts_s = int((grant.refresh_expires_at - grant.standing.session.rotated_at).total_seconds())
        yield self._cookie(ACCESS_COOKIES, grant.access, "/", lasts_s)
        if grant.refresh is not None:
            yield self._cookie(REFRESH_COOKIES, grant.refresh, REFRESH_PATH, lasts_s)

    def no_cookies(self) -> Iterator[tuple[str, str]]:
        yield self._cookie(ACCESS_COOKIES, "", "/", 0)
        yield self._cookie(REFRESH_COOKIES, "", REFRESH_PATH, 0)

    def _cookie(self, names: tuple[str, str], value: str, path: str, lasts_s: int) -> tuple[str, str]:
        is_secure = self.origin.startswith("https:")
        flags = "HttpOnly; SameSite=Strict" + ("; Secure" if is_secure else "")
        return "set-cookie", f"{names[not is_secure]}={value}; Path={path}; Max-Age={lasts_s}; {flags}"


def visit_of(call: Call, auth: Authenticator) -> Visit:
    believed = auth.is_proxied(call)
    scheme = (believed and _last(call.header(b"x-forwarded-proto"))) or str(call.scope.get("scheme", "http"))
    host = (believed and _last(call.header(b"x-forwarded-host"))) or call.header(b"host") or ""
    said = urlsplit(call.header(b"origin") or "")
    # Of a proxy that nobody has named as trusted only the browser knows that it speaks https.
    is_https = scheme == "https" or said.scheme == "https"
    own = f"{'https' if is_https else 'http'}://{_without_port(host, is_https)}"
    origins = call.headers(b"origin")
    is_ours = len(origins) == 1 and f"{said.scheme}://{_without_port(said.netloc, is_https)}" == own
    cookies = _cookies(call)
    is_secure = scheme == "https"
    return Visit(
        Place(auth.address(call), call.header(b"user-agent"), call.request_id),
        own,
        is_ours and bool(call.header(CONSOLE_HEADER)),
        _first(cookies, ACCESS_COOKIES, is_secure),
        _first(cookies, REFRESH_COOKIES, is_secure),
        cookies.get("tollway-oidc"),
    )


def _last(header: str | None) -> str | None:
    """What the nearest proxy said, of several."""
    return header.rsplit(",", 1)[-1].strip() if header else None


def _without_port(netloc: str, is_https: bool) -> str:
    return netloc.lower().removesuffix(":443" if is_https else ":80")


def _cookies(call: Call) -> dict[str, str]:
    """The first of each name, as browsers send the most specific one first."""
    found: dict[str, str] = {}
    for header in call.headers(b"cookie"):
        for pair in header.split(";"):
            name, _, value = pair.strip().partition("=")
            if len(value) <= COOKIE_CHARS_MAX:
                found.setdefault(name, value)
    return found


def _first(cookies: dict[str, str], names: tuple[str, str], is_secure: bool) -> str | None:
    """Over https a cookie that http could have set is not looked at: somebody between may have set it."""
    return cookies.get(names[0]) or (None if is_secure else cookies.get(names[1])) or None
