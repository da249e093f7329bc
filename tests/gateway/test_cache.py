"""The cache client: lazy, bounded in time, and one kind of failure."""

import socket
from pathlib import Path

import pytest
from pydantic import SecretStr
from redis.asyncio import SSLConnection

from gateway.cache import CacheUnavailable, create_cache
from gateway.settings import CacheSettings, SettingsError


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def test_starts_without_a_server_and_says_unavailable_when_used() -> None:
    cache = create_cache(CacheSettings(url=SecretStr(f"redis://127.0.0.1:{free_port()}/0")))
    with pytest.raises(CacheUnavailable):
        await cache.ping()
    await cache.aclose()


async def test_silent_server_is_unavailable_after_the_timeout() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        url = f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
        cache = create_cache(CacheSettings(url=SecretStr(url), timeout_s=0.05))
        with pytest.raises(CacheUnavailable):
            await cache.ping()
        await cache.aclose()


async def test_tls_uses_the_given_authority(tmp_path: Path) -> None:
    settings = CacheSettings(url=SecretStr("rediss://cache:6380/2"), ssl_ca_file=tmp_path / "ca.pem")
    cache = create_cache(settings)
    assert cache.connection_pool.connection_class is SSLConnection
    assert cache.connection_pool.connection_kwargs["ssl_ca_certs"] == str(tmp_path / "ca.pem")
    assert cache.connection_pool.connection_kwargs["db"] == 2


@pytest.mark.parametrize("url", ["redis://cache:6379/0", "unix:///run/cache.sock"])
def test_an_authority_without_tls_is_refused_at_boot(url: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"TOLLWAY_CACHE__SSL_CA_FILE needs a REDIS_URL .* rediss://"):
        create_cache(CacheSettings(url=SecretStr(url), ssl_ca_file=tmp_path / "ca.pem"))
