"""The document is whole, is what is served and committed, and names what the code reads."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from typing import Any

import pytest

from engine.server.app import Route
from engine.server.openapi import document
from engine.server.openapi.operations import ANSWER_HEADERS, HEADERS, REPLY_HEADERS
from engine.server.routes import ROUTES, describe
from tests.engine.server.conftest import API_KEY, MODEL, Server
from tests.tidy.tree import ROOT


def test_the_committed_document_is_this_one() -> None:
    committed = (ROOT / "docs/engine-openapi.json").read_text(encoding="utf-8")
    assert committed == describe(), "python -m engine openapi > docs/engine-openapi.json"


def test_the_command_prints_it_without_torch() -> None:
    script = "import sys, runpy; sys.argv[1:] = ['openapi']\ntry: runpy.run_module('engine', run_name='__main__')\n"
    script += "finally: sys.stderr.write(str('torch' in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=600
    )
    assert (done.returncode, done.stderr) == (0, "False")
    assert done.stdout == describe()


async def test_it_is_served_to_who_has_the_key(server: Server) -> None:
    async with server.session(API_KEY) as session, session.get("/openapi.json") as answer:
        assert (answer.status, answer.content_type) == (200, "application/json")
        assert await answer.text() == describe()


def test_every_reference_leads_somewhere() -> None:
    whole = document(ROUTES)
    for reference in references(whole):
        place: Any = whole
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]
    assert len(set(references(whole))) > 40


def test_a_route_that_nobody_described_is_noticed() -> None:
    with pytest.raises(KeyError):
        document([Route("GET", "/new", ROUTES[0].handler)])


def test_every_header_that_is_read_is_described() -> None:
    source = ast.parse((ROOT / "engine/server/caller.py").read_text(encoding="utf-8"))
    read = {
        node.value
        for node in ast.walk(source)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("x-")
    }
    assert read == set(HEADERS)


async def test_every_reply_has_the_headers(server: Server) -> None:
    async with server.session(API_KEY) as session, session.get("/load") as answer:
        named = {name.lower() for name in answer.headers if name.lower().startswith("x-")}
    assert named == set(REPLY_HEADERS)
    body = {"model": MODEL, "prompt": "x", "max_tokens": 1}
    async with server.session(API_KEY) as session, session.post("/v1/completions", json=body) as answer:
        named = {name.lower() for name in answer.headers if name.lower().startswith("x-")}
    assert named == {*REPLY_HEADERS, *ANSWER_HEADERS}


def test_what_only_answers_say_is_described_with_them() -> None:
    document = json.loads(describe())
    assert {*REPLY_HEADERS, *ANSWER_HEADERS} == set(document["components"]["headers"])
    for path, methods in document["paths"].items():
        for operation in methods.values():
            (answer,) = [row for status, row in operation["responses"].items() if status.startswith("2")]
            takes_terms = any("x-request-class" in row.get("$ref", "") for row in operation["parameters"])
            assert ("x-engine-queue-ms" in answer["headers"]) == takes_terms, path


def references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [found for inner in value for found in references(inner)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if "$ref" in value else []
    return own + [found for inner in value.values() for found in references(inner)]


def test_it_is_json() -> None:
    assert json.loads(describe())["openapi"] == "3.1.0"
