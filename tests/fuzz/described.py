"""Requests that schemathesis makes of the OpenAPI document: what it allows, and what it forbids.

What it forbids must be refused, nothing may be answered 5xx, and every answer must be as described. Of what it allows,
most is narrowed to what the tiny model knows, so that much of it is answered and not only looked at.
"""

from __future__ import annotations

import copy
from typing import Any
from urllib.parse import parse_qs, urlsplit

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from engine.server.openapi import document
from engine.server.routes import ROUTES
from tests.fuzz.run import ANSWER_WITHIN_S, Report

CHECKS = (
    *(not_a_server_error, status_code_conformance, content_type_conformance),
    *(response_headers_conformance, response_schema_conformance, negative_data_rejection),
)
NOT_ASKED = ("/internal/drain",)
"""It would be the last."""
KEY = {"authorization": "Bearer internal"}
VOCABULARY = 512
SHORT = {"minimum": 0, "maximum": 24}
NARROW: dict[str, dict[str, Any]] = {
    "model": {"enum": ["m"]},
    "max_tokens": {"type": "integer", **SHORT},
    "max_completion_tokens": SHORT,
    "min_tokens": {"maximum": 2},
    "n": {"maximum": 3},
    "prompt_logprobs": {"maximum": 2},
    "dimensions": {"maximum": 64},
}


def ask_described(url: str, seed_: int, count: int, *, mode: GenerationMode) -> Report:
    """About `count` requests, the same number for each operation that the mode has something for."""
    whole = document(ROUTES)
    schema = schemathesis.openapi.from_dict(whole if mode is GenerationMode.NEGATIVE else narrowed(whole))
    schema.config.update(base_url=url)
    operations = [found.ok() for found in schema.get_all_operations()]
    operations = [one for one in operations if one.path not in NOT_ASKED]
    if mode is GenerationMode.NEGATIVE:
        operations = [one for one in operations if one.method.lower() == "post" or one.query]
    report = Report()
    for operation in operations:
        _ask_many(operation, mode, seed_, max(1, count // len(operations)), report)
    return report


def narrowed(whole: dict[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(whole)
    for name, schema in found["components"]["schemas"].items():
        if name.endswith("Request"):
            for field, more in NARROW.items():
                if field in schema["properties"]:
                    schema["properties"][field] |= more
            if "max_tokens" in schema["properties"]:  # else answers fill the context
                schema["required"].append("max_tokens")
            _narrow_ids(schema)
    for name in [name for name in found["components"]["parameters"] if name != "x-request-id"]:
        del found["components"]["parameters"][name]
    for path in found["paths"].values():
        for operation in path.values():
            operation["parameters"] = [
                each
                for each in operation["parameters"]
                if "$ref" not in each or each["$ref"].endswith("x-request-id")
            ]
    return found


def _narrow_ids(schema: Any) -> None:
    if isinstance(schema, list):
        for inner in schema:
            _narrow_ids(inner)
    if isinstance(schema, dict):
        if schema.get("maximum") == 2**31 - 1 and schema.get("minimum") == 0:
            schema["maximum"] = VOCABULARY - 1
        _narrow_ids(list(schema.values()))


def _ask_many(operation: Any, mode: GenerationMode, seed_: int, count: int, report: Report) -> None:
    quiet = settings(
        max_examples=count,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )

    with requests.Session() as session:

        @seed(seed_)
        @quiet
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            try:
                answer = case.call(headers=KEY, session=session, timeout=ANSWER_WITHIN_S)
            except requests.RequestException as error:
                report.faults.append(f"{operation.label} {mode.name}: {error!r} for {str(case.body)[:1000]}")
                return
            report.statuses[operation.path, answer.status_code] += 1
            checks = [
                check for check in CHECKS if check is not negative_data_rejection or _is_sent(case, answer)
            ]
            try:
                case.validate_response(answer, checks=checks)
            except AssertionError as error:
                report.faults.append(f"{operation.label} {mode.name}: {str(error)[:2000]}")
            except BaseExceptionGroup as errors:
                report.faults.append(f"{operation.label} {mode.name}: {str(errors)[:2000]}")

        ask()


def _is_sent(case: Any, answer: Any) -> bool:
    """Whether the whole query is. Of what the document forbids, an empty list has no spelling: it leaves no trace."""
    sent = parse_qs(urlsplit(answer.request.url).query, keep_blank_values=True)
    return set(case.query or ()) <= set(sent)
