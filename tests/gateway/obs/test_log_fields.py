"""Every field of a log line is documented, and no line of a whole gateway's life holds a prompt, an answer or a secret."""

from __future__ import annotations

import ast
import io
import json
import re
from typing import Any

from gateway.obs.logging import _FORBIDDEN, configure_logging
from tests.fakes.engine import FakeEngine
from tests.fakes.script import BROKEN, OVERLOADED, Script
from tests.gateway.asking import BODY, STREAM
from tests.harness import SERVED, Gateway
from tests.tidy.tree import ROOT, sources

PAGE = ROOT / "docs/logging.md"
EVERYWHERE = {"time", "level", "logger", "event", "exception", "request_id", "tenant_id"}
METHODS = {"debug", "info", "warning", "error", "exception", "critical"}
PROMPT, ANSWER = "canary-in-a-prompt", "canary-in-an-answer"


def fields() -> set[str]:
    """The keywords of every call of a logger in the gateway."""
    found: set[str] = set()
    for source in sources("gateway"):
        for node in ast.walk(source.tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr in METHODS and "log" in ast.unparse(node.func.value).lower():
                found |= {keyword.arg for keyword in node.keywords if keyword.arg is not None}
    return found


def test_the_page_has_every_field_and_no_other() -> None:
    documented = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert len(fields()) >= 40
    assert documented == fields() | EVERYWHERE


def test_the_page_names_what_is_dropped() -> None:
    named = PAGE.read_text(encoding="utf-8").partition("dropped by name (")[2].partition(")")[0]
    assert set(re.findall(r"`(\w+)`", named)) == _FORBIDDEN
    assert not fields() & _FORBIDDEN


async def test_no_line_of_a_gateways_life_holds_a_secret(gateway: Gateway, engine: FakeEngine) -> None:
    """Answers, failures, refusals, wrong keys, and everything that an operator gives it to keep."""
    lines = io.StringIO()
    configure_logging("debug", lines)
    try:
        secrets = await _live(gateway, engine)
    finally:
        configure_logging("warning")
    written = lines.getvalue()
    assert written.count('"event": "request"') >= 10
    assert [secret for secret in secrets if secret in written] == []
    known = fields() | EVERYWHERE
    for line in written.splitlines():
        told = json.loads(line)
        if told.get("logger", "").startswith("gateway") and told["event"] != "pruned":
            assert told.keys() <= known, line


async def _live(gateway: Gateway, engine: FakeEngine) -> list[str]:
    """Returns what must not be written."""
    tenant = await gateway.serve(engine)
    said = {"messages": [{"role": "user", "content": PROMPT}], "user": PROMPT}
    answers = [Script(tokens=(ANSWER,)), Script(tokens=(ANSWER,)), Script(refuse=OVERLOADED), Script()]
    engine.script(*answers, Script(fail_after=1), *[Script(refuse=BROKEN)] * 3)
    for body in (BODY, STREAM, BODY, STREAM, BODY):
        await _ask(gateway, tenant.key, {**body, **said})
    await _ask(gateway, tenant.key, {**BODY, **said, "model": PROMPT})
    await _ask(gateway, tenant.key, {**BODY, **said, "temperature": PROMPT})
    await _ask(gateway, tenant.key + "x", {**BODY, **said})
    await _ask(gateway, "sk-" + PROMPT, {**BODY, **said})
    pool_key = "canary-key-of-somebody-elses-engine"
    spec = {"kind": "external", "model": SERVED, "served_names": ["x"], "urls": [engine.url]}
    await gateway.admin("POST", "/pools", {"name": "theirs", "spec": spec, "api_key": pool_key})
    await gateway.admin("POST", "/pools", {"name": "theirs", "spec": spec, "api_key": pool_key}, status=409)
    settings = gateway.settings
    internal = settings.upstream.engine_key()
    assert internal is not None
    password = (
        settings.database.url.get_secret_value().partition("://")[2].partition("@")[0].partition(":")[2]
    )
    found = [PROMPT, ANSWER, tenant.key, gateway.admin_key, pool_key, internal, password]
    return [secret for secret in found if secret]


async def _ask(gateway: Gateway, key: str, body: dict[str, Any]) -> None:
    answer = await gateway.request("POST", "/v1/chat/completions", body, key)
    await answer.read()
