"""The loop through its ports: messages in, steps to the runner, one message a step and worker out."""

from __future__ import annotations

import pytest

from tests.engine.core.fake_runner import expected_answer
from tests.engine.core.harness import Engine, add, config, layout


@pytest.mark.parametrize("steps_in_flight", [1, 2])
@pytest.mark.parametrize("windows", [(None,), (None, 20), (8,), (None, 5, 33)])
def test_answers_equal_the_definition_whatever_runs_beside(
    steps_in_flight: int, windows: tuple[int | None, ...]
) -> None:
    settings = config(layout(40, windows=windows), steps_in_flight=steps_in_flight)
    engine = Engine(settings)
    requests = [
        add(f"r{i}", i * 7 % 50 + 1, max_tokens=20 + i % 13, ignore_eos=i % 2 == 0) for i in range(40)
    ]
    engine.run(*requests)
    for request in requests:
        answer = engine.answers[request.request_id]
        assert (answer.tokens, answer.reason) == expected_answer(request, 97, settings.eos_token_ids)
    assert engine.runner.max_in_flight == steps_in_flight
