"""Every setting of the gateway, worker and pool: frozen groups, validated once at boot.

Sources, strongest first: arguments, `DATABASE_URL` and `REDIS_URL`, `TOLLWAY_<GROUP>__<FIELD>`, the TOML file
named by `TOLLWAY_CONFIG`, the defaults below. A key that no setting has stops the boot and names the nearest
one. Secrets come from files or the environment and are never printed. What could only ever have one caller is
a constant beside that caller, not a setting. Model, price and limit *data* is in the database, not here.
"""

import difflib
import os
import socket
import tomllib
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

__all__ = [
    "CacheSettings",
    "DatabaseSettings",
    "ExportSettings",
    "LedgerSettings",
    "LimitSettings",
    "MailSettings",
    "PoolSettings",
    "SecuritySettings",
    "ServerSettings",
    "Settings",
    "SettingsError",
    "UnknownSetting",
    "UpstreamSettings",
    "invalid_values",
    "read_secret",
]

PREFIX = "TOLLWAY_"
ALIASES = {
    "DATABASE_URL": ("database", "url"),
    "REDIS_URL": ("cache", "url"),
    "TOLLWAY_MASTER_KEY": ("security", "master_key_file"),
}
# Names with our prefix that configure something else: where a caller finds us, the demo's hand-out, the test suite, the file.
FOREIGN = ("TOLLWAY_CONFIG", "TOLLWAY_URL", "TOLLWAY_MODEL", "TOLLWAY_ENGINE_URL", "TOLLWAY_MASTER_KEY")
FOREIGN_PREFIX = "TOLLWAY_TEST_"


class SettingsError(ValueError):
    """A setting is missing or cannot be used: a sentence that names it, for whoever started the process."""


class UnknownSetting(SettingsError):
    """A key that no setting has. Silence would run the service with a default that somebody meant to change."""


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class DatabaseSettings(_Group):
    url: SecretStr = SecretStr("postgresql+asyncpg://tollway@127.0.0.1:5432/tollway")
    """The application's role: no DDL, no UPDATE or DELETE on events."""
    owner_url: SecretStr | None = None
    """The owner's role, for migrations and partitions; the application's when not set."""
    pool_size: int = Field(default=8, ge=1, le=200)
    """A gateway opens at most this many connections and six for its ledger and its feed; docs/database.md adds all up."""
    connect_timeout_s: float = Field(default=3.0, gt=0)
    statement_timeout_s: float = Field(default=10.0, gt=0)
    ssl_ca_file: Path | None = None


class CacheSettings(_Group):
    url: SecretStr = SecretStr("redis://127.0.0.1:6379/0")
    """`redis://`, `rediss://` (TLS) or `unix://`."""
    timeout_s: float = Field(default=0.5, gt=0, le=5)
    """For one command. Short: the limiter goes on without the cache sooner than a caller notices."""
    ssl_ca_file: Path | None = None


class ServerSettings(_Group):
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    """None: `/metrics` is served on the main port, behind the operator's key."""
    gateway_id: str = Field(default_factory=socket.gethostname, pattern=r"^[A-Za-z0-9._-]{1,63}$")
    """Names this replica in the ledger and its spool; must be stable over restarts and unique."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    trusted_proxy_cidrs: tuple[IPv4Network | IPv6Network, ...] = ()
    max_body_bytes: int = Field(default=8 * 1024 * 1024, ge=1024)
    drain_timeout_s: float = Field(default=1200.0, ge=0)
    """A process that stops goes when its last request has ended, and after this in any case: no request that a pool may
    allow (`pool/traffic.py`) takes as long."""
    files: str = "var/files"
    """Where tenants' files and the results of their batches lie: a directory that all gateways and workers share, or a
    bucket written as for exports, with the exports' credentials."""


class SecuritySettings(_Group):
    key_pepper_file: Path | None = None
    """One pepper, or lines of `id:value`: the first for new keys, the others for those that are stored under them."""
    key_pepper: SecretStr | None = None
    master_key_file: Path | None = None
    """One key, or lines of `id:value`: what recoverable secrets are sealed under, and the root of cache salts and
    pseudonyms. The pepper when not set."""
    webhook_allowed_cidrs: tuple[IPv4Network | IPv6Network, ...] = ()
    """Networks that webhooks are sent to although they are not public, and over plain HTTP too."""


class UpstreamSettings(_Group):
    internal_key: SecretStr | None = None
    internal_key_file: Path | None = None
    connect_timeout_s: float = Field(default=2.0, gt=0)
    first_token_timeout_s: float = Field(default=120.0, gt=0)
    between_tokens_timeout_s: float = Field(default=60.0, gt=0)
    total_timeout_s: float = Field(default=900.0, gt=0)
    max_connections: int = Field(default=1024, ge=1)

    def engine_key(self) -> str | None:
        """What our engines know gateway, worker and pool by; None when all engines are somebody else's."""
        key = read_secret(self.internal_key, self.internal_key_file, "upstream.internal_key_file")
        return key.decode() if key is not None else None


class LimitSettings(_Group):
    """What a new tenant gets; 0 means no limit."""

    requests_per_minute: int = Field(default=600, ge=0)
    tokens_per_minute: int = Field(default=1_000_000, ge=0)
    requests_per_day: int = Field(default=0, ge=0)
    concurrent_requests: int = Field(default=100, ge=0)
    max_prompt_tokens: int = Field(default=0, ge=0)
    max_output_tokens: int = Field(default=0, ge=0)
    visible_models: tuple[str, ...] | None = None
    """The served names that a new tenant may use, as its model permission; None: all that routes lead somewhere."""
    lease_ttl_s: float = Field(default=30.0, ge=3)
    """A concurrency slot of a gateway that died comes back after this long."""


class LedgerSettings(_Group):
    outage_grace_s: float = Field(default=30.0, ge=0)
    spool_dir: Path = Path("var/spool")
    hold_ttl_s: float = Field(default=1200.0, gt=0)
    reserve_timeout_s: float = Field(default=2.0, gt=0)
    journal_lag_s: float = Field(default=10.0, gt=0)
    """How long an attempt may stay unsettled before it is settled from the replica's journal."""
    events_kept_days: int = Field(default=0, ge=0)
    """Months of events that ended this long ago, are closed and are exported whole are dropped; 0 keeps them for ever,
    else 62 at least."""


class PoolSettings(_Group):
    run_dir: Path = Path("var/run")
    ready_timeout_s: float = Field(default=300.0, gt=0)
    drain_timeout_s: float = Field(default=1200.0, ge=0)


class MailSettings(_Group):
    """The SMTP server that e-mail leaves by; without a host, what should be mailed waits and says so."""

    host: str | None = None
    port: int = Field(default=587, ge=1, le=65535)
    tls: Literal["starttls", "tls", "none"] = "starttls"
    username: str | None = None
    password: SecretStr | None = None
    password_file: Path | None = None
    from_address: str = "tollway@localhost"
    timeout_s: float = Field(default=15.0, gt=0, le=120)
    """For each step of a conversation."""
    ssl_ca_file: Path | None = None

    def secret(self) -> str:
        """Raises SettingsError if there is a user name without a password."""
        found = read_secret(self.password, self.password_file, "mail.password_file")
        if self.username is not None and found is None:
            raise SettingsError("TOLLWAY_MAIL__USERNAME needs TOLLWAY_MAIL__PASSWORD_FILE")
        return found.decode() if found is not None else ""


class ExportSettings(_Group):
    destination: str | None = None
    """A directory, or `s3://bucket/prefix?endpoint=https://…&region=…&staging=/directory`; exports for a bucket are
    built in the staging directory, `var/exports` if not given. None: nothing is scheduled, and the admin API makes no
    exports."""
    formats: tuple[Literal["csv", "jsonl", "parquet", "focus", "stripe"], ...] = ()
    """Exported for each day once it is closed. With `stripe` and a key, the events are sent there too."""
    s3_credentials_file: Path | None = None
    """Two lines, access key id and secret; without it, what the environment or the machine's role gives."""
    stripe_url: str = "https://api.stripe.com"
    stripe_key_file: Path | None = None


class Settings(BaseSettings):
    """All groups. `Settings()` reads the environment; tests pass groups as arguments."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        env_prefix=PREFIX,
        env_nested_delimiter="__",
    )

    database: DatabaseSettings = DatabaseSettings()
    cache: CacheSettings = CacheSettings()
    server: ServerSettings = Field(default_factory=ServerSettings)
    security: SecuritySettings = SecuritySettings()
    upstream: UpstreamSettings = UpstreamSettings()
    limits: LimitSettings = LimitSettings()
    ledger: LedgerSettings = LedgerSettings()
    pool: PoolSettings = PoolSettings()
    mail: MailSettings = MailSettings()
    exports: ExportSettings = ExportSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        known = tuple(_known_names(cls))
        _refuse_unknown(_environment_keys(os.environ), known)
        return (
            init_settings,
            InitSettingsSource(settings_cls, _from_aliases(os.environ)),
            env_settings,
            InitSettingsSource(settings_cls, _from_file(os.environ.get(f"{PREFIX}CONFIG"), known)),
        )


def read_secret(value: SecretStr | None, file: Path | None, name: str) -> bytes | None:
    """The secret given directly or by file; None if neither is set. Raises SettingsError for a file that is
    empty or cannot be read. `name` is the file's setting, as `group.field`."""
    if value is not None:
        return value.get_secret_value().encode()
    if file is None:
        return None
    variable = _variable(*name.split("."))
    try:
        secret = file.read_bytes().strip()
    except OSError as error:
        raise SettingsError(f"{variable}: {file}: {error.strerror}") from None
    if not secret:
        raise SettingsError(f"{variable}: {file} is empty")
    return secret


def invalid_values(error: ValidationError) -> str:
    """Which variables hold a value that their setting refuses, and why; the values are not shown."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "\n".join(f"{_variable(*map(str, one['loc']))}: {one['msg']}" for one in found)


def _known_names(settings: type[BaseSettings]) -> Iterable[tuple[str, str]]:
    for group, info in settings.model_fields.items():
        assert isinstance(info.annotation, type)
        assert issubclass(info.annotation, BaseModel), "a setting lives in a group"
        for field in info.annotation.model_fields:
            yield group, field


def _environment_keys(environ: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """(group, field) of every variable with our prefix, whether known or not."""
    for key in environ:
        name = key.upper()
        if not name.startswith(PREFIX) or name in FOREIGN or name.startswith(FOREIGN_PREFIX):
            continue
        group, _, field = name.removeprefix(PREFIX).lower().partition("__")
        yield group, field


def _refuse_unknown(keys: Iterable[tuple[str, str]], known: tuple[tuple[str, str], ...]) -> None:
    names = [_variable(*pair) for pair in known]
    for pair in keys:
        if pair not in known:
            nearest = difflib.get_close_matches(_variable(*pair), names, n=1, cutoff=0)[0]
            raise UnknownSetting(f"unknown setting {_variable(*pair)}; did you mean {nearest}?")


def _variable(*path: str) -> str:
    """The environment's name of a group, or of a field in it."""
    return (PREFIX + "__".join(part for part in path if part)).upper()


def _from_aliases(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, dict[str, str]] = {}
    for alias, (group, field) in ALIASES.items():
        if environ.get(alias):
            found.setdefault(group, {})[field] = environ[alias]
    return dict(found)


def _from_file(path: str | None, known: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    if not path:
        return {}
    try:
        with Path(path).open("rb") as file:
            values = tomllib.load(file)
    except OSError as error:
        raise SettingsError(f"{PREFIX}CONFIG: {path}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{PREFIX}CONFIG: {path}: {error}") from None
    for group, fields in values.items():
        keys = [(group, field) for field in fields] if isinstance(fields, dict) else [(group, "")]
        _refuse_unknown(keys, known)
    return values
