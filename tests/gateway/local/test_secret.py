"""Secrets in files: made once, readable by the owner only."""

from pathlib import Path

from gateway.local.secret import secret_in


def test_a_secret_is_made_once_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    first = secret_in(path, lambda count: bytes(range(count)))
    assert first == "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
    assert path.stat().st_mode & 0o777 == 0o600
    assert secret_in(path) == first


def test_secrets_differ_and_fit_into_an_address(tmp_path: Path) -> None:
    one, two = secret_in(tmp_path / "one"), secret_in(tmp_path / "two")
    assert one != two
    assert not set(one) & set("/:@?#&%+= \n")
