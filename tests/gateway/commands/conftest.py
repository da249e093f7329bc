"""A configured installation, for the commands."""

import pytest


@pytest.fixture
def environ(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("TOLLWAY_SECURITY__KEY_PEPPER", "a pepper of the tests")
