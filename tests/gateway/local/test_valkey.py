"""The embedded Valkey: needs its password, is adopted after a crash, keeps its port, is gone after stop."""

from pathlib import Path

import pytest
import redis

from gateway.local.valkey import EmbeddedValkey


def test_start_adopt_stop_and_the_same_url_again(tmp_path: Path) -> None:
    first = EmbeddedValkey(tmp_path)
    first.start()
    second = EmbeddedValkey(tmp_path)
    try:
        second.start()
        assert second.url() == first.url()
        with redis.Redis.from_url(second.url()) as client:
            assert client.ping()
        with (
            redis.Redis(port=first.port, retry=None) as stranger,
            pytest.raises(redis.exceptions.AuthenticationError),
        ):
            stranger.ping()
    finally:
        first.stop()
    with redis.Redis.from_url(second.url(), retry=None) as client, pytest.raises(redis.ConnectionError):
        client.ping()
    second.start()
    try:
        assert second.url() == first.url().replace(":0/", f":{second.port}/")
    finally:
        second.stop()


def test_a_stale_record_is_not_mistaken_for_a_server(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path)
    server.start()
    server.stop()
    assert not server.adopt()
