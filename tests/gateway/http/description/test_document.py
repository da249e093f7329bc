"""The document as a whole, and that answers which are not as it says are seen by the tests that compare them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.openapi import DOCUMENT, Description


@pytest.fixture(scope="module")
def document() -> Any:
    return json.loads(DOCUMENT.read_text(encoding="utf-8"))


def test_names_are_short_and_every_reference_leads_somewhere(document: Any) -> None:
    names = document["components"]["schemas"]
    assert [name for name in names if not re.fullmatch("[A-Z][A-Za-z]+", name)] == []
    found = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert found == set(names)
    ids = [
        operation["operationId"] for methods in document["paths"].values() for operation in methods.values()
    ]
    assert len(set(ids)) == len(ids)


def test_what_is_missing_or_too_much_is_seen(document: Any) -> None:
    description = Description(document)
    model = {"id": "m", "object": "model", "created": 1, "owned_by": "o"}

    def check(body: Any) -> None:
        raw = json.dumps(body).encode()
        description.check("GET", "/v1/models/m", 200, "application/json", raw)

    check(model)
    for wrong in (model | {"extra": 1}, model | {"created": "1"}, {"id": "m", "object": "model"}):
        with pytest.raises(AssertionError):
            check(wrong)
    with pytest.raises(AssertionError):
        description.check("GET", "/v1/models/m", 200, "text/html", b"")
    with pytest.raises(AssertionError):
        description.check("GET", "/v1/nothing", 200, "application/json", b"{}")
