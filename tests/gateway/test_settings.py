"""Settings: sources and their order, unknown keys, secrets, and the size of the whole."""

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from engine.config import ServerSettings as EngineServerSettings
from gateway.pool.traffic import TOTAL_S_MAX
from gateway.settings import (
    DatabaseSettings,
    ServerSettings,
    Settings,
    SettingsError,
    UnknownSetting,
    invalid_values,
    read_secret,
)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("TOLLWAY_") or name in ("DATABASE_URL", "REDIS_URL"):
            monkeypatch.delenv(name)


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_environment_wins_over_file_and_file_over_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = write(tmp_path / "t.toml", "[server]\nport = 1\nhost = '0.0.0.0'\n[ledger]\nhold_ttl_s = 5\n")
    monkeypatch.setenv("TOLLWAY_CONFIG", file)
    monkeypatch.setenv("TOLLWAY_SERVER__PORT", "2")
    settings = Settings()
    assert (settings.server.port, settings.server.host) == (2, "0.0.0.0")
    assert settings.ledger.hold_ttl_s == 5
    assert settings.ledger.outage_grace_s == 30


def test_arguments_win_over_everything_and_merge_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOLLWAY_SERVER__PORT", "2")
    settings = Settings(server=ServerSettings(port=3), database=DatabaseSettings(pool_size=4))
    assert (settings.server.port, settings.database.pool_size) == (3, 4)


def test_well_known_urls_win_over_the_prefixed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql+asyncpg://a")
    monkeypatch.setenv("TOLLWAY_DATABASE__URL", "postgresql+asyncpg://b")
    monkeypatch.setenv("TOLLWAY_DATABASE__POOL_SIZE", "3")
    monkeypatch.setenv("REDIS_URL", "redis://c")
    settings = Settings()
    assert settings.database.url.get_secret_value() == "postgresql+asyncpg://a"
    assert settings.database.pool_size == 3
    assert settings.cache.url.get_secret_value() == "redis://c"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("TOLLWAY_DATABASE__POOLSIZE", "TOLLWAY_DATABASE__POOL_SIZE"),
        ("TOLLWAY_DATBASE__URL", "TOLLWAY_DATABASE__URL"),
        ("TOLLWAY_LEDGER", "TOLLWAY_LEDGER__"),
        ("tollway_server__prt", "TOLLWAY_SERVER__PORT"),
    ],
)
def test_unknown_variable_stops_the_boot_and_names_the_nearest(
    monkeypatch: pytest.MonkeyPatch, name: str, nearest: str
) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(UnknownSetting, match=nearest):
        Settings()


@pytest.mark.parametrize("text", ["[server]\nprot = 1", "[sever]\nport = 1", "port = 1"])
def test_unknown_key_of_the_file_stops_the_boot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    monkeypatch.setenv("TOLLWAY_CONFIG", write(tmp_path / "t.toml", text))
    with pytest.raises(UnknownSetting, match="did you mean TOLLWAY_"):
        Settings()


def test_names_that_configure_something_else_are_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOLLWAY_MODEL", "TOLLWAY_ENGINE_URL", "TOLLWAY_TEST_DATABASE_URL"):
        monkeypatch.setenv(name, "x")
    assert Settings().server.port == 8080


def test_value_of_the_wrong_type_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOLLWAY_SERVER__PORT", "s3cr3t")
    with pytest.raises(ValidationError) as caught:
        Settings()
    assert "s3cr3t" not in str(caught.value)
    assert invalid_values(caught.value).startswith("TOLLWAY_SERVER__PORT: Input should be a valid integer")
    assert "s3cr3t" not in invalid_values(caught.value)


def test_secrets_are_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "DATABASE_URL",
        "REDIS_URL",
        "TOLLWAY_SECURITY__KEY_PEPPER",
        "TOLLWAY_UPSTREAM__INTERNAL_KEY",
    ):
        monkeypatch.setenv(name, "s3cr3t")
    settings = Settings()
    for shown in (str(settings), repr(settings), settings.model_dump_json()):
        assert "s3cr3t" not in shown


def test_settings_are_frozen() -> None:
    settings = Settings()
    with pytest.raises(ValidationError):
        settings.server.port = 1  # type: ignore[misc]  # the point of the test
    with pytest.raises(ValidationError):
        settings.server = ServerSettings()  # type: ignore[misc]  # the point of the test


def test_the_whole_stays_small() -> None:
    groups = [info.annotation for info in Settings.model_fields.values()]
    assert len(groups) <= 10
    assert sum(len(group.model_fields) for group in groups) <= 60  # type: ignore[union-attr]  # every field is a group


def test_secret_comes_from_the_value_or_the_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    write(file, "from-file\n")
    assert read_secret(SecretStr("direct"), file, "x") == b"direct"
    assert read_secret(None, file, "x") == b"from-file"
    assert read_secret(None, None, "x") is None


def test_empty_secret_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "key"
    write(file, "\n")
    with pytest.raises(SettingsError, match=r"TOLLWAY_SECURITY__KEY_PEPPER_FILE: .*key is empty"):
        read_secret(None, file, "security.key_pepper_file")


def test_a_file_that_cannot_be_read_is_named_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missing = tmp_path / "none"
    with pytest.raises(SettingsError, match=r"TOLLWAY_UPSTREAM__INTERNAL_KEY_FILE: .*none: No such file"):
        read_secret(None, missing, "upstream.internal_key_file")
    monkeypatch.setenv("TOLLWAY_CONFIG", str(missing))
    with pytest.raises(SettingsError, match=r"TOLLWAY_CONFIG: .*none: No such file"):
        Settings()
    monkeypatch.setenv("TOLLWAY_CONFIG", write(tmp_path / "t.toml", "[server"))
    with pytest.raises(SettingsError, match="TOLLWAY_CONFIG: "):
        Settings()


def test_no_drain_is_shorter_than_a_request_may_be() -> None:
    """By the defaults, of gateway, supervisor and engine: neither in general nor in a pool with a time of its own. And
    money is held for longer."""
    settings, engine = Settings(), EngineServerSettings()
    longest = max(settings.upstream.total_timeout_s, TOTAL_S_MAX)
    assert settings.server.drain_timeout_s > longest
    assert engine.drain_timeout_s > longest + engine.drain_grace_s, (
        "it takes requests until the grace has ended"
    )
    assert settings.pool.drain_timeout_s >= engine.drain_timeout_s, "it would be killed"
    assert settings.ledger.hold_ttl_s > longest
