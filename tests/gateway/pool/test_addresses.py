"""Which addresses an external engine may have."""

from __future__ import annotations

import pytest
from pydantic import AnyHttpUrl

from gateway.pool.addresses import unsafe_url


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest",
        "http://2852039166/",
        "http://0xa9.0xfe.0xa9.0xfe/",
        "http://[::ffff:169.254.169.254]/",
        "http://[2002:a9fe:a9fe::1]/",
        "http://[fe80::1]:8000/",
        "http://[fd00:ec2::254]/",
        "http://100.100.100.200/",
        "http://0.0.0.0:8000/",
        "http://[::]/",
        "http://224.0.0.1/",
        "http://metadata.google.internal./",
        "http://METADATA.google.internal/",
        "http://user@engine:8000/",
        "http://user:secret@engine:8000/",
        "http://engine:8000/?x=1",
        "http://engine:8000/#x",
    ],
)
def test_what_no_engine_has(url: str) -> None:
    found = unsafe_url([AnyHttpUrl("http://engine:8000"), AnyHttpUrl(url)])
    assert found is not None
    assert "secret" not in found


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8000", "http://10.1.2.3:8000/v", "https://vllm.example.com", "http://[::1]:8000"],
)
def test_where_engines_are(url: str) -> None:
    assert unsafe_url([AnyHttpUrl(url)]) is None
