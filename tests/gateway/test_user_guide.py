"""Every snippet of the user guide, run in its order by a real client against a real gateway and a real engine."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.server.answer_template import TEMPLATE
from tests.engine.test_core_process import serving
from tests.gateway.test_isolation import Served
from tests.harness import SERVED, Gateway
from tests.models import write_tiny_llama
from tests.tidy.tree import ROOT

GUIDE = ROOT / "docs/user-guide.md"
FLAGS = ("--tool-call-parser", "hermes", "--reasoning-parser", "none", "--kv-cache-dtype", "float32")
PROVED = """
assert answer.choices[0].message.tool_calls[0].function.name == "depth"
assert json.loads(call.function.arguments)["at"] in ("harbour", "cape")
assert isinstance(sea["calm"], bool) and sea["colour"] in ("grey", "blue")
assert refused == "model_not_found"
assert all(part.isdecimal() for part in left)
assert text.choices[0].text == same.choices[0].text
"""


@pytest.fixture
def gateway_changes() -> dict[str, Any]:
    times = {"first_token_timeout_s": 300.0, "between_tokens_timeout_s": 300.0, "connect_timeout_s": 60.0}
    return {"upstream": {"internal_key": "internal", **times}}


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    write_tiny_llama(tmp_path / "model")
    (tmp_path / "model" / "chat_template.jinja").write_text(TEMPLATE)
    log = tmp_path / "engine.log"
    async with serving(tmp_path / "model", *FLAGS, log=log) as engine:
        yield Served(engine, (await engine.status())["epoch"], log)


def snippets() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


async def test_every_snippet_runs(gateway: Gateway, served: Served, tmp_path: Path) -> None:
    assert len(snippets()) >= 7
    tenant = await gateway.serve(served)  # type: ignore[arg-type]  # has what a pool needs
    limits = {"requests_per_min": 1000, "tokens_per_min": 1_000_000}
    await gateway.admin("POST", f"/projects/{tenant.id}/limits", limits)
    await gateway.refresh()
    program = tmp_path / "guide.py"
    program.write_text("\n".join([*snippets(), PROVED]), encoding="utf-8")
    environment = os.environ | {
        "OPENAI_BASE_URL": f"{gateway.url}/v1",
        "OPENAI_API_KEY": tenant.key,
        "TOLLWAY_MODEL": SERVED,
        "NO_PROXY": "127.0.0.1",
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(program)), env=environment, cwd=tmp_path, stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
