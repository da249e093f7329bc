"""The engine that is asked: a tiny model that chats, reasons, calls tools, embeds and goes on elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.engine.server.answer_template import TEMPLATE
from tests.engine.test_core_process import Engine, serving
from tests.models import write_tiny_llama

_CLOSED = "{%- if add_generation_prompt and closed %}{{ '<think></think>' }}{% endif %}"
"""A turn without reasoning, for who asks for it."""

__all__ = ["Engine", "fuzzed_engine"]


@asynccontextmanager
async def fuzzed_engine(folder: Path) -> AsyncIterator[Engine]:
    model = write_tiny_llama(folder / "model")
    (model / "chat_template.jinja").write_text(TEMPLATE + _CLOSED)
    flags = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3", "--queue-deadline-s", "120")
    journal, log = str(folder / "journal"), folder / "engine.log"
    async with serving(model, "--journal-dir", journal, *flags, log=log) as engine:
        yield engine
