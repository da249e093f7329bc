"""A real S3 server."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest
from moto.server import ThreadedMotoServer


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """With one bucket, `files`."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    client = http.client.HTTPConnection(host, port)
    client.request("PUT", "/files")
    assert client.getresponse().status == 200
    client.close()
    yield f"http://{host}:{port}"
    server.stop()
