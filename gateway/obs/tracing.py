"""Whether requests are traced: the part that everybody may import, without the SDK.

Place: the composition root asks here. The variables are OpenTelemetry's own; there is no setting of ours beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.settings import SettingsError

if TYPE_CHECKING:
    from gateway.obs.traces import RequestSpan, Traces

__all__ = ["Asked", "open_traces", "reserving"]

_OPERATIONS = {
    "chat.completions": "chat",
    "completions": "text_completion",
    "embeddings": "embeddings",
    "responses": "chat",
}
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a span tells of a request."""

    request_id: str
    tenant_id: str
    endpoint: str
    model: str
    is_stream: bool
    request_class: str
    fields: Mapping[str, object]
    """Of the body; only numbers of a closed list are read."""

    @property
    def operation(self) -> str:
        return _OPERATIONS[self.endpoint]


def open_traces(environ: Mapping[str, str], instance: str) -> Traces | None:
    """None unless a collector is named, and not switched off again. Raises SettingsError if the SDK is not installed."""
    is_off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    is_off = is_off or environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp"
    if is_off or not any(environ.get(name) for name in _ENDPOINTS):
        return None
    try:
        from gateway.obs.traces import Traces
    except ModuleNotFoundError as error:
        raise SettingsError(f"{_ENDPOINTS[0]} needs: pip install 'tollway[traces]' ({error.name})") from None
    return Traces(instance)


def reserving(span: RequestSpan | None) -> AbstractContextManager[None]:
    return span.step("reserve") if span is not None else nullcontext()
