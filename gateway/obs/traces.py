"""OpenTelemetry traces of requests: request → reserve → attempts, and on into the engine by `traceparent`.

Place: beside the request path, which carries a `RequestSpan` along when there is one. Off unless the environment names a
collector (`OTEL_EXPORTER_OTLP_ENDPOINT`); then a request costs a test for None. Names are those of the GenAI semantic conventions;
attributes come from the closed lists below, so that no prompt, answer, key or user can get into one. Spans leave from a thread
of their own, and are dropped when the collector is away. The SDK is imported with this module, and only then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway.errors import GatewayError
from gateway.obs.tracing import Asked

__all__ = ["AttemptSpan", "RequestSpan", "Traces"]

TRACEPARENT = "traceparent"
PROVIDER = "tollway"
_NUMBERS = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "max_tokens": "gen_ai.request.max_tokens",
    "max_completion_tokens": "gen_ai.request.max_tokens",
    "max_output_tokens": "gen_ai.request.max_tokens",
    "n": "gen_ai.request.choice.count",
}
"""Fields of a body whose values are told, if they are numbers."""


class Traces:
    """Owns the exporter and its thread; `close()` it."""

    def __init__(self, instance: str) -> None:
        """Where to, with which headers, how often: the SDK's own `OTEL_…` variables."""
        resource = Resource.create({SERVICE_INSTANCE_ID: instance})
        if str(resource.attributes.get(SERVICE_NAME)).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "tollway-gateway"}))
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("gateway")
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def request(self, traceparent: str | None, asked: Asked) -> Iterator[RequestSpan]:
        """Continues the caller's trace, if it has named one."""
        parent = self._propagator.extract({TRACEPARENT: traceparent}) if traceparent else Context()
        span = self._tracer.start_span(_name(asked), parent, SpanKind.SERVER, _of_request(asked))
        own = RequestSpan(self._tracer, span, asked, self._propagator)
        try:
            yield own
        except (Exception, asyncio.CancelledError) as error:
            own.failed(_why(error))
            raise
        finally:
            span.end()

    async def close(self) -> None:
        """What has ended is sent, as long as the exporter's own time allows."""
        await asyncio.to_thread(self._provider.shutdown)


class RequestSpan:
    def __init__(
        self, tracer: Tracer, span: Span, asked: Asked, propagator: TraceContextTextMapPropagator
    ) -> None:
        self._tracer = tracer
        self._span = span
        self._asked = asked
        self._propagator = propagator
        self._inside = set_span_in_context(span, Context())

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A part of it that is not an attempt; a refusal ends it as failed."""
        with self._tracer.start_as_current_span(
            name, self._inside, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            except GatewayError as error:
                _fail(span, _why(error))
                raise

    def attempt(self, number: int, pool: str, replica: str, url: str) -> AttemptSpan:
        where = urlsplit(url)
        span = self._tracer.start_span(
            _name(self._asked),
            self._inside,
            SpanKind.CLIENT,
            {
                **_of_both(self._asked),
                "server.address": where.hostname or "",
                "server.port": where.port or (443 if where.scheme == "https" else 80),
                "tollway.attempt": number,
                "tollway.pool": pool,
                "tollway.replica": replica,
            },
        )
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, set_span_in_context(span, Context()))
        return AttemptSpan(span, carrier[TRACEPARENT])

    def first_data(self, after_s: float) -> None:
        self._span.set_attribute("gen_ai.response.time_to_first_chunk", after_s)

    def used(self, prompt: int, completion: int, cached: int) -> None:
        _use(self._span, prompt, completion, cached)

    def failed(self, why: str) -> None:
        _fail(self._span, why)


@dataclass(frozen=True, slots=True)
class AttemptSpan:
    span: Span
    traceparent: str
    """What the engine is told."""

    def used(self, prompt: int, completion: int, cached: int) -> None:
        _use(self.span, prompt, completion, cached)

    def end(self, outcome: str, queue_ms: int | None) -> None:
        self.span.set_attribute("tollway.outcome", outcome)
        if queue_ms is not None:
            self.span.set_attribute("tollway.queue_ms", queue_ms)
        if outcome != "answered":
            _fail(self.span, outcome)
        self.span.end()


def _name(asked: Asked) -> str:
    return f"{asked.operation} {asked.model}"


def _of_both(asked: Asked) -> dict[str, str]:
    """Of the request and of each of its attempts."""
    return {
        "gen_ai.operation.name": asked.operation,
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.request.model": asked.model,
    }


def _of_request(asked: Asked) -> dict[str, str | int | float | bool]:
    told: dict[str, str | int | float | bool] = {
        **_of_both(asked),
        "gen_ai.request.stream": asked.is_stream,
        "tollway.request_id": asked.request_id,
        "tollway.project": asked.tenant_id,
        "tollway.class": asked.request_class,
    }
    for field, name in _NUMBERS.items():
        value = asked.fields.get(field)
        if isinstance(value, int | float) and not isinstance(value, bool):
            told[name] = value
    return told


def _use(span: Span, prompt: int, completion: int, cached: int) -> None:
    span.set_attribute("gen_ai.usage.input_tokens", prompt)
    span.set_attribute("gen_ai.usage.output_tokens", completion)
    if cached:
        span.set_attribute("gen_ai.usage.cache_read.input_tokens", cached)


def _why(error: BaseException) -> str:
    if isinstance(error, GatewayError):
        return error.code or error.type
    return "cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__


def _fail(span: Span, why: str) -> None:
    span.set_attribute("error.type", why)
    span.set_status(Status(StatusCode.ERROR))
