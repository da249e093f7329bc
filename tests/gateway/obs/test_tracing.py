"""Tracing is off by default, and then nothing of it is there."""

from __future__ import annotations

import asyncio
import sys

import pytest

from gateway.obs.tracing import open_traces
from tests.fakes.engine import FakeEngine
from tests.gateway.asking import BODY, ask
from tests.harness import Gateway
from tests.tidy.tree import ROOT


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_it_is_off_unless_a_collector_is_named(environ: dict[str, str]) -> None:
    assert open_traces(environ, "gateway") is None


async def test_when_it_is_off_nothing_is_loaded_or_sent_on(gateway: Gateway, engine: FakeEngine) -> None:
    assert gateway.app.traces is None
    tenant = await gateway.serve(engine)
    assert (await ask(gateway, tenant, BODY))[0] == 200
    assert "traceparent" not in engine.requests[-1].headers
    heavy = "import sys, gateway.app; assert not {'gateway.obs.traces', 'opentelemetry.exporter'} & {*sys.modules}"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", heavy, cwd=ROOT)
    assert await process.wait() == 0
