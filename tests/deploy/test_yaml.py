"""The deployment files are YAML that means what it looks like: no key twice, no octal number, no wrong indentation."""

from __future__ import annotations

from pathlib import Path

from yamllint import linter
from yamllint.config import YamlLintConfig

from tests.tidy.tree import ROOT


def problems(text: str) -> list[str]:
    config = YamlLintConfig(file=str(ROOT / "deploy/yamllint.yaml"))
    return [f"{found.line}: {found.desc}" for found in linter.run(text, config)]


def files() -> list[Path]:
    return sorted((ROOT / "deploy").rglob("*.yaml"))


def test_files_are_clean() -> None:
    assert len(files()) > 20
    wrong = [f"{file}: {found}" for file in files() for found in problems(file.read_text(encoding="utf-8"))]
    assert not wrong, "\n".join(wrong)


def test_a_key_that_is_there_twice_is_found() -> None:
    assert any("duplication" in found for found in problems("a: 1\na: 2\n"))
