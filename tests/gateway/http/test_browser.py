"""What a request of a browser says, without a server."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any, cast

import pytest

from gateway.http.auth import Authenticator
from gateway.http.browser import Visit, visit_of
from gateway.http.call import Call
from gateway.http.security import CONSOLE_HEADERS
from gateway.sessions.errors import Forged


async def _nothing(*_: Any) -> Any:
    raise AssertionError("neither body nor answer is touched")


def visit(trusted: bool = False, **headers: str) -> Visit:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": named, "client": ("192.0.2.1", 1)}
    call = Call(scope, _nothing, _nothing, "req_1", lambda: 0.0)
    networks = [ip_network("192.0.2.0/24")] if trusted else []
    return visit_of(call, Authenticator(cast(Any, None), networks))


def is_ours(**headers: str) -> bool:
    return visit(x_tollway_console="1", **headers).is_from_console


def test_our_own_origin_is_ours() -> None:
    assert is_ours(host="console.example.com", origin="https://console.example.com")
    assert is_ours(host="console.example.com", origin="https://console.example.com:443")
    assert is_ours(host="Console.example.com:80", origin="http://console.example.com")
    assert is_ours(host="127.0.0.1:8080", origin="http://127.0.0.1:8080")
    assert is_ours(host="[::1]:8080", origin="http://[::1]:8080")


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "https://console.example.com.evil.example",
        "https://evil.example/console.example.com",
        "https://console.example.com@evil.example",
        "https://console.example.com:8443",
        "ftp://console.example.com",
        "null",
        "",
    ],
)
def test_no_other_origin_is(origin: str) -> None:
    assert not is_ours(host="console.example.com", origin=origin)
    with pytest.raises(Forged):
        visit(x_tollway_console="1", host="console.example.com", origin=origin).require_console()


def test_what_a_proxy_says_counts_if_it_is_trusted() -> None:
    said = {
        "host": "gateway:8080",
        "x_forwarded_host": "evil, console.example.com",
        "x_forwarded_proto": "https",
    }
    ours = {"origin": "https://console.example.com", "x_tollway_console": "1"}
    assert visit(trusted=True, **said, **ours).is_from_console
    assert visit(trusted=True, **said, **ours).origin == "https://console.example.com"
    assert not visit(trusted=False, **said, **ours).is_from_console
    assert not visit(trusted=True, **said, **ours | {"origin": "http://console.example.com"}).is_from_console


def test_cookies_of_https_come_first_and_alone_where_https_is_known() -> None:
    cookie = "other=1; tollway=http; __Host-tollway=https; tollway-refresh=r; tollway=second"
    assert (visit(cookie=cookie).access, visit(cookie=cookie).refresh) == ("https", "r")
    assert visit(cookie="tollway=http; tollway=second").access == "http"
    known = visit(trusted=True, cookie="tollway=http; tollway-refresh=r", x_forwarded_proto="https")
    assert (known.access, known.refresh) == (None, None)
    assert visit(cookie="tollway=" + "x" * 5000).access is None
    assert visit(cookie="tollway=; ;;=;").access is None


def test_the_console_loads_and_runs_its_own_things_only() -> None:
    policy = dict(part.split(" ", 1) for part in CONSOLE_HEADERS["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert CONSOLE_HEADERS["x-content-type-options"] == "nosniff"
    assert CONSOLE_HEADERS["referrer-policy"] == "no-referrer"
