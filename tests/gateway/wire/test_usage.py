"""The usage object: lenient about what is absent, strict about nonsense."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.wire.usage import Usage, read_usage


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ({"prompt_tokens": -1, "completion_tokens": 1}, None),
        ({"prompt_tokens": True, "completion_tokens": 1}, None),
        ({"prompt_tokens": 1.5, "completion_tokens": 1}, None),
        ({"prompt_tokens": 4, "completion_tokens": 10**9}, Usage(4, 10**9)),
        ({"prompt_tokens": 4, "completion_tokens": 10**9 + 1}, None),
        ({"prompt_tokens": 10**40, "completion_tokens": 1}, None),
        ({"completion_tokens": 1}, None),
        ({"prompt_tokens": 4}, Usage(4, 0)),
        (
            {"prompt_tokens": 4, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 9}},
            Usage(4, 2, 4),
        ),
        (
            {
                "prompt_tokens": 4,
                "completion_tokens": 2,
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
            Usage(4, 2, 0, 1),
        ),
        ({"prompt_tokens": 4, "completion_tokens": 2, "prompt_tokens_details": None}, Usage(4, 2)),
    ],
)
def test_usage(value: Any, expected: Usage | None) -> None:
    assert read_usage(value) == expected
