"""Traces of real requests, by the real exporter over HTTP, in a collector of the test's own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from gateway.obs import tracing
from tests.fakes.engine import FakeEngine
from tests.fakes.script import BROKEN, Script
from tests.gateway.asking import BODY, STREAM
from tests.harness import SERVED, Gateway
from tests.tidy.tree import ROOT

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SECRET_WORDS = "canary-of-a-prompt"


@dataclass
class Collector:
    url: str = ""
    status: int = 200
    raw: list[bytes] = field(default_factory=list)
    spans: list[Any] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        assert request.content_type == "application/x-protobuf"
        self.raw.append(body)
        said = ExportTraceServiceRequest.FromString(body)
        self.spans += [
            span for one in said.resource_spans for scope in one.scope_spans for span in scope.spans
        ]
        self.arrived.set()
        return web.Response(status=self.status)

    async def until(self, count: int) -> dict[str, list[Any]]:
        """The spans by kind: 1 internal, 2 server, 3 client."""
        async with asyncio.timeout(60):
            while len(self.spans) < count:
                self.arrived.clear()
                await self.arrived.wait()
        kinds = {1: "internal", 2: "server", 3: "client"}
        found: dict[str, list[Any]] = {}
        for span in sorted(self.spans, key=lambda one: int(one.start_time_unix_nano)):
            found.setdefault(kinds[span.kind], []).append(span)
        return found


@pytest.fixture
async def collector(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Collector]:
    """Before the gateway, which reads the environment at its start."""
    collector = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", collector.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield collector
    await runner.cleanup()


@pytest.fixture
async def traced(collector: Collector, gateway: Gateway) -> Gateway:
    assert gateway.app.traces is not None
    return gateway


def told(span: Any) -> dict[str, Any]:
    kinds = {"string_value": str, "int_value": int, "double_value": float, "bool_value": bool}
    found = {}
    for one in span.attributes:
        kind = one.value.WhichOneof("value")
        found[one.key] = kinds[kind](getattr(one.value, kind))
    return found


async def ask(gateway: Gateway, key: str, body: dict[str, Any]) -> int:
    headers = {"traceparent": CALLER}
    answer = await gateway.request("POST", "/v1/chat/completions", body, key, headers=headers)
    await answer.read()
    return answer.status


@pytest.mark.parametrize("body", [BODY, STREAM], ids=["whole", "stream"])
async def test_a_request_is_one_trace_from_the_caller_into_the_engine(
    collector: Collector, traced: Gateway, engine: FakeEngine, body: dict[str, Any]
) -> None:
    tenant = await traced.serve(engine)
    asked = {**body, "temperature": 0.5, "max_tokens": 9, "user": SECRET_WORDS}
    assert await ask(traced, tenant.key, asked) == 200
    found = await collector.until(3)
    (server,), (reserve,), (attempt,) = found["server"], found["internal"], found["client"]
    assert server.name == attempt.name == f"chat {SERVED}"
    assert reserve.name == "reserve"
    assert server.trace_id.hex() == CALLER.split("-")[1]
    assert server.parent_span_id.hex() == CALLER.split("-")[2]
    assert {reserve.parent_span_id, attempt.parent_span_id} == {server.span_id}
    assert {one.trace_id for one in (reserve, attempt)} == {server.trace_id}
    seen = engine.requests[-1].headers["traceparent"]
    assert seen == f"00-{server.trace_id.hex()}-{attempt.span_id.hex()}-01"
    of_server, of_attempt = told(server), told(attempt)
    assert of_server["gen_ai.operation.name"] == "chat"
    assert of_server["gen_ai.request.model"] == SERVED
    assert (of_server["gen_ai.request.temperature"], of_server["gen_ai.request.max_tokens"]) == (0.5, 9)
    assert of_server["tollway.project"] == tenant.id
    (journalled,) = [one for one in engine.journal if one["kind"] == "end"]
    usage = (journalled["prompt_tokens"], journalled["completion_tokens"])
    for one in (of_server, of_attempt):
        assert (one["gen_ai.usage.input_tokens"], one["gen_ai.usage.output_tokens"]) == usage
    assert of_attempt["server.port"] == engine.port
    assert of_attempt["tollway.outcome"] == "answered"


async def test_a_second_attempt_is_a_second_span(
    collector: Collector, traced: Gateway, engine: FakeEngine
) -> None:
    tenant = await traced.serve(engine)
    engine.script(Script(refuse=BROKEN), Script())
    assert await ask(traced, tenant.key, BODY) == 200
    failed, answered = (await collector.until(4))["client"]
    assert (told(failed)["error.type"], failed.status.code) == ("failed", 2)
    assert told(answered)["tollway.outcome"] == "answered"
    assert (told(failed)["tollway.attempt"], told(answered)["tollway.attempt"]) == (0, 1)


async def test_a_refused_request_says_why(collector: Collector, traced: Gateway, engine: FakeEngine) -> None:
    tenant = await traced.serve(engine)
    assert await ask(traced, tenant.key, {**BODY, "model": "none"}) == 404
    (server,) = (await collector.until(1))["server"]
    assert (told(server)["error.type"], server.status.code) == ("model_not_found", 2)


async def test_no_prompt_answer_or_key_is_in_a_trace(
    collector: Collector, traced: Gateway, engine: FakeEngine
) -> None:
    tenant = await traced.serve(engine)
    said = [{"role": "user", "content": SECRET_WORDS}]
    hidden = {"messages": said, "user": SECRET_WORDS, "stop": [SECRET_WORDS], "temperature": 1.0}
    assert await ask(traced, tenant.key, {**STREAM, **hidden}) == 200
    await collector.until(3)
    raw = b"".join(collector.raw)
    for canary in (SECRET_WORDS, tenant.key, "engine-key"):
        assert canary.encode() not in raw
    assert tenant.id.encode() in raw, "what is looked for would be found"


async def test_a_collector_that_is_away_costs_no_request(
    collector: Collector, traced: Gateway, engine: FakeEngine
) -> None:
    collector.status = 400  # not to be tried again
    tenant = await traced.serve(engine)
    for _ in range(5):
        assert await ask(traced, tenant.key, BODY) == 200
    await collector.until(15)


def test_names_are_those_of_the_conventions() -> None:
    text = "".join((ROOT / f"gateway/obs/{name}.py").read_text() for name in ("traces", "tracing"))
    ours = set(re.findall(r'"(gen_ai\.[a-z_.]+)"', text))
    theirs = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    assert len(ours) >= 14
    assert ours <= theirs
    operations = {one.value for one in gen_ai_attributes.GenAiOperationNameValues}
    assert set(tracing._OPERATIONS.values()) <= operations
