"""What a runbook tells somebody to type at night exists: paths, fields, commands, settings, log lines, other runbooks."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from typer.main import get_command

from gateway.cli import app
from gateway.settings import ALIASES, FOREIGN, Settings
from tests.tidy.tree import ROOT, sources

PREFIX = "/v1/organization/"
CALL = re.compile(
    r"\bapi (?P<quote>['\"]?)(?P<path>[a-z][^'\"`\s]*(?:\$\([^)]*\))?)(?P=quote)(?: -d '(?P<body>[^']*)')?"
)
OPERATION = re.compile(r"`(GET|POST|DELETE) (/v1/[^`?\s]+)`")
LOGGED = re.compile(r"`((?!tollway_|engine_)[a-z]+(?:_[a-z]+)+)`")


def pages() -> list[tuple[str, str]]:
    paths = [*sorted((ROOT / "docs/runbooks").glob("*.md")), ROOT / "docs/operating.md"]
    return [(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in paths]


@cache
def description() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "docs/openapi.json").read_text(encoding="utf-8"))
    return found


def operation(method: str, path: str) -> dict[str, Any] | None:
    """Ids are written as `pool_…`, `{id}` or `HOST`; nothing else stands for a parameter."""
    for known, operations in description()["paths"].items():
        pattern = re.sub(r"\\\{[a-z_]+\\\}", r"([^/]*…|\\{[a-z_]+\\})", re.escape(known))
        if method in operations and re.fullmatch(pattern, path):
            found: dict[str, Any] = operations[method]
            return found
    return None


def fields_of(found: dict[str, Any]) -> tuple[set[str], set[str]]:
    """All fields of an operation's body, and those that it must have."""
    schema = found.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if "$ref" in schema:
        schema = description()["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
    return set(schema.get("properties", {})), set(schema.get("required", ()))


def faults(path: str, body: str | None) -> list[str]:
    address = urlsplit(path)
    found = operation("post" if body is not None else "get", PREFIX + address.path)
    if found is None:
        return [f"no such path: {path}"]
    queries = {parameter["name"] for parameter in found.get("parameters", ()) if parameter["in"] == "query"}
    wrong = [f"{path} has no parameter {name}" for name, _ in parse_qsl(address.query) if name not in queries]
    if body is not None:
        known, needed = fields_of(found)
        given = set(json.loads(body.replace("\n", " ")))
        wrong += [f"{path} has no field {name}" for name in sorted(given - known)]
        wrong += [f"{path} needs the field {name}" for name in sorted(needed - given)]
    return wrong


@pytest.mark.parametrize(
    ("path", "body", "fault"),
    [
        ("replica", None, "no such path"),
        ("replicas?pool=pool_…", None, "no parameter pool"),
        ("pools/pool_…", '{"replicas": 2}', "no field replicas"),
        ("credits", '{"amount_nanousd": 1}', "needs the field reason"),
    ],
)
def test_what_is_wrong_is_found(path: str, body: str | None, fault: str) -> None:
    assert fault in "\n".join(faults(path, body))


def test_calls_of_the_api_exist() -> None:
    calls = [(page, call) for page, text in pages() for call in CALL.finditer(text)]
    assert len(calls) > 20
    wrong = [f"{page}: {fault}" for page, call in calls for fault in faults(call["path"], call["body"])]
    assert not wrong, "\n".join(wrong)


def test_operations_that_are_named_exist() -> None:
    named = [(page, *found.groups()) for page, text in pages() for found in OPERATION.finditer(text)]
    wrong = [
        f"{page}: {method} {path}" for page, method, path in named if not operation(method.lower(), path)
    ]
    assert not wrong, "\n".join(wrong)


def test_commands_exist() -> None:
    wrong = []
    for page, text in pages():
        for line in re.findall(r"(?:`|^|-- ?\n?)tollway ((?:[a-z-]+ ?)+)", text, re.MULTILINE):
            command: Any = get_command(app)
            for word in line.split():
                if not hasattr(command, "commands"):
                    break
                if word not in command.commands:
                    wrong.append(f"{page}: tollway {line}")
                    break
                command = command.commands[word]
    assert not wrong, "\n".join(wrong)


def test_settings_exist() -> None:
    known = {
        f"TOLLWAY_{group}__{field}".upper()
        for group, info in Settings.model_fields.items()
        for field in info.annotation.model_fields  # type: ignore[union-attr]  # every setting is a group
    }
    known |= {*ALIASES, *FOREIGN, "TOLLWAY_ENGINE_API_KEY", "TOLLWAY_ENGINE_INTERNAL_KEY"}
    wrong = [
        f"{page}: {name}"
        for page, text in pages()
        for name in re.findall(r"\bTOLLWAY_[A-Z0-9_]+", text)
        if name not in known
    ]
    assert not wrong, "\n".join(wrong)


def test_log_lines_are_written_by_the_code() -> None:
    """Every `snake_case` word in backticks that follows "log" on its line, and every word that grep looks for in one."""
    code = "\n".join(source.path.read_text(encoding="utf-8") for source in sources("gateway"))
    wrong, looked = [], 0
    for page, text in pages():
        words = [
            word for line in re.findall(r"^.*\blog\b.*$", text, re.MULTILINE) for word in LOGGED.findall(line)
        ]
        for pattern in re.findall(r"grep (?:-E )?'?([a-z_| ]+?)'? (?:gateway\.log|\| tail)", text):
            words += [word.strip() for word in pattern.split("|")]
        looked += len(words)
        wrong += [f"{page}: {word}" for word in words if word not in code]
    assert looked > 10
    assert not wrong, "\n".join(wrong)


def test_links_lead_somewhere() -> None:
    """Of every page, not of runbooks alone."""
    wrong = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)[)#]", page.read_text(encoding="utf-8")):
            if not (page.parent / target).exists():
                wrong.append(f"{page.relative_to(ROOT)}: {target}")
    assert not wrong, "\n".join(wrong)
