"""Secrets, doors and encryption: what a stranger could read or call. Knows settings and what answered without a key."""

from __future__ import annotations

import stat
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from gateway.checks.say import failed, first_few, passed, skipped, warned
from gateway.checks.types import Check, Facts, Finding

__all__ = ["CHECKS"]

_KEY_CHARS_MIN = 24


def pepper_is_a_file(facts: Facts) -> Finding:
    name, security = "key pepper", facts.settings.security
    if security.key_pepper_file is None:
        return warned(
            name,
            "it is given in the environment"
            if security.key_pepper is not None
            else "none is configured here",
            "put it into a file that only the service reads: TOLLWAY_SECURITY__KEY_PEPPER_FILE; then it can be rotated",
        )
    return passed(name, f"in {security.key_pepper_file}")


def master_key_is_its_own(facts: Facts) -> Finding:
    name, security = "master key", facts.settings.security
    if security.master_key_file is None:
        return warned(
            name,
            "none: secrets are sealed under the key pepper",
            "set TOLLWAY_MASTER_KEY to a file of its own, so that either can be rotated without the other",
        )
    return passed(name, f"in {security.master_key_file}")


def secret_files_are_private(facts: Facts) -> Finding:
    name, settings = "secret files", facts.settings
    files = [
        settings.security.key_pepper_file, settings.security.master_key_file, settings.upstream.internal_key_file,
        settings.mail.password_file, settings.exports.s3_credentials_file, settings.exports.stripe_key_file,
    ]  # fmt: skip
    there = [file for file in files if file is not None and file.exists()]
    loose = [str(file) for file in there if _is_loose(file)]
    if loose:
        return failed(name, f"others can read {first_few(loose)}", "chmod 600, owned by the service's user")
    return passed(name, f"{len(there)}, read by their owner and group alone")


def internal_key_is_long(facts: Facts) -> Finding:
    name, key = "internal key", facts.settings.upstream.engine_key()
    if key is None:
        if any(pool["spec"]["kind"] == "tollway" for pool in facts.pools):
            return failed(
                name, "none, though there are engines of ours", "set TOLLWAY_UPSTREAM__INTERNAL_KEY_FILE"
            )
        return skipped(name, "no engine of ours needs one")
    if len(key) < _KEY_CHARS_MIN:
        return warned(
            name,
            f"{len(key)} characters",
            f"take {_KEY_CHARS_MIN} random ones or more: it opens every engine",
        )
    return passed(name, f"{len(key)} characters")


def metrics_are_closed(facts: Facts) -> Finding:
    name = "gateway metrics"
    if facts.are_metrics_open:
        return failed(
            name, "/metrics answers without a key", "they name every project: close it or bind it elsewhere"
        )
    return passed(name, "not without a key")


def engines_want_a_key(facts: Facts) -> Finding:
    name = "engine doors"
    if not facts.engines:
        return skipped(name, "no engine has an address")
    loose = sorted({engine.url for engine in facts.engines if engine.is_open})
    if not loose:
        return passed(name, f"{len(facts.engines)} engines refuse callers without a key")
    advice = "start the pool supervisor without --open-engines, or give the engines --api-key: callers pass by limits and ledger"
    outside = [url for url in loose if not _is_local(urlsplit(url).hostname)]
    if outside:
        return failed(name, f"anybody may call {first_few(outside)}", advice)
    return warned(name, f"this machine's users may call {first_few(loose)}", advice)


def connections_are_encrypted(facts: Facts) -> Finding:
    name, settings = "encryption", facts.settings
    database = urlsplit(settings.database.url.get_secret_value())
    cache = urlsplit(settings.cache.url.get_secret_value())
    plain = []
    if (
        not _is_local(database.hostname)
        and settings.database.ssl_ca_file is None
        and "ssl" not in database.query
    ):
        plain.append(f"the database at {database.hostname} (TOLLWAY_DATABASE__SSL_CA_FILE)")
    if cache.scheme == "redis" and not _is_local(cache.hostname):
        plain.append(f"the cache at {cache.hostname} (rediss://)")
    if plain:
        return warned(name, f"without TLS: {first_few(plain)}", "turn TLS on, unless the network is trusted")
    return passed(name, "database and cache by TLS, or on this machine")


def _is_loose(file: Path) -> bool:
    return bool(stat.S_IMODE(file.stat().st_mode) & stat.S_IRWXO)


def _is_local(host: str | None) -> bool:
    """No host: a socket in the file system."""
    if host is None or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


CHECKS: tuple[Check, ...] = (
    pepper_is_a_file,
    master_key_is_its_own,
    secret_files_are_private,
    internal_key_is_long,
    metrics_are_closed,
    engines_want_a_key,
    connections_are_encrypted,
)
