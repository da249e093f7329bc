"""Secrets, doors and encryption: each line on real settings and files that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.checks import security
from gateway.checks.types import EngineFacts, Facts, Verdict
from gateway.settings import CacheSettings, DatabaseSettings, SecuritySettings, Settings, UpstreamSettings

TOLLWAY_POOL = {"id": "p", "spec": {"kind": "tollway"}}


def _facts(**groups: object) -> Facts:
    return Facts(settings=Settings(**groups))  # type: ignore[arg-type]  # groups by name


def test_where_secrets_are(tmp_path: Path) -> None:
    bare = _facts(security=SecuritySettings(key_pepper="from the environment"))
    assert security.pepper_is_a_file(bare).found == "it is given in the environment"
    assert security.master_key_is_its_own(bare).verdict is Verdict.WARN
    files = {name: tmp_path / name for name in ("key_pepper_file", "master_key_file")}
    for file in files.values():
        file.write_text("secret")
        file.chmod(0o600)
    good = _facts(security=SecuritySettings(**files))
    checks = (security.pepper_is_a_file, security.master_key_is_its_own, security.secret_files_are_private)
    assert {check(good).verdict for check in checks} == {Verdict.PASS}
    files["master_key_file"].chmod(0o644)
    loose = security.secret_files_are_private(good)
    assert (loose.verdict, str(files["master_key_file"]) in loose.found) == (Verdict.FAIL, True)


@pytest.mark.parametrize(("key", "verdict"), [(None, "fail"), ("short", "warn"), ("x" * 24, "pass")])
def test_the_internal_key(key: str | None, verdict: str) -> None:
    settings = Settings(upstream=UpstreamSettings(internal_key=key))
    finding = security.internal_key_is_long(Facts(settings=settings, pools=[TOLLWAY_POOL]))
    assert finding.verdict.value == verdict
    assert key is None or key not in finding.found + finding.advice


def test_nobody_needs_an_internal_key() -> None:
    assert security.internal_key_is_long(_facts()).verdict is Verdict.SKIP


def test_doors() -> None:
    settings = Settings()
    assert security.metrics_are_closed(Facts(settings=settings)).verdict is Verdict.PASS
    assert (
        security.metrics_are_closed(Facts(settings=settings, are_metrics_open=True)).verdict is Verdict.FAIL
    )
    verdicts = {}
    for url in (
        "http://127.0.0.1:1",
        "http://localhost:1",
        "http://[::1]:1",
        "http://10.0.0.5:1",
        "http://gpu-1:1",
    ):
        engines = [EngineFacts("p", url, is_open=True), EngineFacts("p", "http://10.0.0.9:1")]
        verdicts[url] = security.engines_want_a_key(Facts(settings=settings, engines=engines)).verdict
    assert [verdict.value for verdict in verdicts.values()] == ["warn", "warn", "warn", "fail", "fail"]
    closed = Facts(settings=settings, engines=[EngineFacts("p", "http://10.0.0.9:1")])
    assert security.engines_want_a_key(closed).verdict is Verdict.PASS
    assert security.engines_want_a_key(Facts(settings=settings)).verdict is Verdict.SKIP


def test_encryption(tmp_path: Path) -> None:
    assert security.connections_are_encrypted(_facts()).verdict is Verdict.PASS, "all on this machine"
    far = _facts(
        database=DatabaseSettings(url="postgresql://u:secret@db.example/x"),
        cache=CacheSettings(url="redis://cache.example"),
    )
    finding = security.connections_are_encrypted(far)
    assert finding.verdict is Verdict.WARN
    assert "db.example" in finding.found
    assert "cache.example" in finding.found
    assert "secret" not in finding.found
    sealed = _facts(
        database=DatabaseSettings(url="postgresql://u@db.example/x", ssl_ca_file=tmp_path / "ca"),
        cache=CacheSettings(url="rediss://cache.example"),
    )
    assert security.connections_are_encrypted(sealed).verdict is Verdict.PASS
