"""Structured logs: one JSON object per line, with the request id and the tenant when there is one.

`bind_request` puts both into the context of the current task; every line of that request then carries them.
Prompts and keys never reach a line: fields that could hold them are dropped by name, and anything that looks
like a key is masked in what remains, tracebacks included. It does not know where lines are collected.
"""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog
from structlog.contextvars import bind_contextvars, clear_contextvars, merge_contextvars

__all__ = ["bind_request", "clear_request", "configure_logging", "get_logger"]

_FORBIDDEN = frozenset(
    {"prompt", "messages", "content", "body", "input", "completion", "authorization", "api_key", "secret"}
)
_KEY = re.compile(r"\btw-([A-Za-z0-9]{8})-[A-Za-z0-9_-]{8,}")
_URL_PASSWORD = re.compile(r"(\w+://[^\s:/@]*):[^\s@/]+@")

Event = MutableMapping[str, Any]


def configure_logging(level: str, stream: TextIO = sys.stdout) -> None:
    """Sends structlog and the standard library's loggers (uvicorn, sqlalchemy …) to one stream as JSON."""
    shared: list[structlog.types.Processor] = [
        merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
        _drop_forbidden,
        _mask,
    ]
    structlog.configure(
        # Straight to the stream: every request has a line, and a record of the standard library costs as much again.
        processors=[*shared, structlog.processors.JSONRenderer()],
        logger_factory=lambda name="": _Lines(stream, name),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared[:3], structlog.stdlib.ExtraAdder(), *shared[3:]],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _mask,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("uvicorn.access").disabled = True  # it would log URLs without ids, twice
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)  # six lines a start, about itself


def get_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """A logger whose lines carry `name`; the configuration is looked up when it is used, not here."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(name)
    return logger


def bind_request(request_id: str, tenant_id: str | None = None) -> None:
    """Called at the edge with the id, and again when the tenant is known."""
    bind_contextvars(request_id=request_id)
    if tenant_id is not None:
        bind_contextvars(tenant_id=tenant_id)


def clear_request() -> None:
    clear_contextvars()


class _Lines:
    """Where structlog's own lines go, whatever their level."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream = stream
        self.name = name

    def msg(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()

    debug = info = warning = error = critical = exception = msg


def _drop_forbidden(_logger: object, _method: str, event: Event) -> Event:
    for name in _FORBIDDEN & event.keys():
        event[name] = "[dropped]"
    return event


def _mask(_logger: object, _method: str, event: Event) -> Event:
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = _masked(value)
        elif not isinstance(value, int | float | bool | None) and not name.startswith("_"):
            event[name] = _masked(str(value))
    return event


def _masked(text: str) -> str:
    """Looked for only where it can be: every text of every line comes here."""
    if "tw-" in text:
        text = _KEY.sub(r"tw-\1-***", text)
    return _URL_PASSWORD.sub(r"\1:***@", text) if "://" in text else text
