"""Logs: JSON lines with ids, without prompts and keys, from structlog and the standard library alike."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from gateway.obs.logging import bind_request, clear_request, configure_logging, get_logger

KEY = "tw-abcd1234-" + "s" * 43


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    buffer = io.StringIO()
    configure_logging("info", buffer)
    yield buffer
    root.handlers[:], root.level = before
    structlog.reset_defaults()
    clear_request()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_line_carries_request_and_tenant(stream: io.StringIO) -> None:
    bind_request("req_1")
    get_logger("gateway.x").info("early")
    bind_request("req_1", "proj_1")
    get_logger("gateway.x").warning("late", attempt=2)
    early, late = lines(stream)
    assert (early["request_id"], early.get("tenant_id")) == ("req_1", None)
    assert (late["tenant_id"], late["event"], late["level"], late["attempt"]) == (
        "proj_1",
        "late",
        "warning",
        2,
    )
    assert late["logger"] == "gateway.x"
    assert late["time"].endswith("Z")


def test_prompts_and_keys_never_reach_a_line(stream: io.StringIO) -> None:
    get_logger("gateway.x").info(f"called with {KEY}", prompt="canary", messages=[{"content": "canary"}])
    get_logger("gateway.x").info("nested", data={"header": f"Bearer {KEY}"})
    logging.getLogger("uvicorn.error").error("bad header %s", KEY)
    text = stream.getvalue()
    assert "canary" not in text
    assert "s" * 43 not in text
    assert text.count("tw-abcd1234-***") == 3


def test_traceback_is_masked_too(stream: io.StringIO) -> None:
    try:
        raise ValueError(f"postgresql://user:hunter2@db/x {KEY}")
    except ValueError:
        get_logger("gateway.x").exception("failed")
        logging.getLogger("sqlalchemy").exception("failed")
    text = stream.getvalue()
    assert text.count("ValueError") >= 2
    assert "hunter2" not in text
    assert "s" * 43 not in text


def test_level_is_respected(stream: io.StringIO) -> None:
    get_logger("gateway.x").debug("quiet")
    assert lines(stream) == []


def test_no_value_is_too_strange_for_a_line(stream: io.StringIO) -> None:
    configure_logging("info", stream)
    get_logger("test").info("strange", huge=2**70, broken="\ud800", path=Path("/x"), nested={1: b"b"})
    line = json.loads(stream.getvalue())
    assert (line["huge"], line["broken"], line["path"]) == (2**70, "\ud800", "/x")
