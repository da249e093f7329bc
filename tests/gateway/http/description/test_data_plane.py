"""The data plane's routes, as they are described: the router has each of them."""

from __future__ import annotations

import re

from gateway.http.description.data_plane import OPERATIONS
from tests.harness import Gateway


async def test_the_data_plane_has_the_routes_that_are_described(gateway: Gateway) -> None:
    for operation in OPERATIONS:
        path = re.sub(r"{\w+}", "x", operation.path)
        answer = await gateway.request(operation.method, path)
        assert answer.status == (200 if operation.is_open else 401), operation
        other = await gateway.request("PATCH", path)
        assert other.status == 405, operation
