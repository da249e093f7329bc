"""The Redis or Valkey client: connection, timeouts, TLS.

Every command of the gateway stays within Redis 7.0. Callers handle `CacheUnavailable` and go on without the
cache; nothing that must survive lives here.
"""

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from gateway.settings import CacheSettings, SettingsError

__all__ = ["CacheUnavailable", "create_cache"]

CacheUnavailable = (RedisError, OSError)
"""What a command raises when the cache is away, still loading, failing over or full."""

_SCHEMES = ("redis://", "rediss://", "unix://")
_TLS_SCHEME = "rediss://"
_CONNECTIONS_MAX = 64
_HEALTH_CHECK_INTERVAL_S = 15


def create_cache(settings: CacheSettings) -> Redis:
    """A client that connects lazily, so that the gateway starts without its cache.

    A stale pooled connection (the server restarted) is replaced once, at once; there is no back-off, because
    the caller has its own way to go on. The owner closes it with `aclose()`. Raises SettingsError for an address
    of another kind, and for one without TLS beside an authority to check it by.
    """
    url = settings.url.get_secret_value()
    tls = {"ssl_ca_certs": str(settings.ssl_ca_file)} if settings.ssl_ca_file else {}
    if not url.startswith(_SCHEMES):
        raise SettingsError(f"REDIS_URL must begin with one of {' '.join(_SCHEMES)}")
    if tls and not url.startswith(_TLS_SCHEME):
        raise SettingsError(
            f"TOLLWAY_CACHE__SSL_CA_FILE needs a REDIS_URL that begins with {_TLS_SCHEME}: "
            "without TLS there is no certificate to check"
        )
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=_CONNECTIONS_MAX,
        timeout=settings.timeout_s,
        socket_timeout=settings.timeout_s,
        socket_connect_timeout=settings.timeout_s,
        health_check_interval=_HEALTH_CHECK_INTERVAL_S,
        retry=Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
        retry_on_error=[],
        **tls,
    )
    return Redis.from_pool(pool)
