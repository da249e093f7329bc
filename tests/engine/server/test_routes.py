"""One table of routes. (What they answer: openapi/test_answers; who may ask: test_caller.)"""

from __future__ import annotations

from engine.server.routes import ROUTES


def test_no_route_is_there_twice() -> None:
    names = [(route.method, route.path) for route in ROUTES]
    assert len(names) == len(set(names))
    assert ("GET", "/openapi.json") in names
