"""Who is turned away at the door, and what they are told."""

from __future__ import annotations

import pytest

from engine.core.admission import Refusal, displaced, refusal
from engine.core.config import CoreConfig
from engine.core.request import Request
from engine.core.scheduler import Scheduler
from engine.messages import AddRequest
from tests.engine.core.harness import add, config, layout


def code_of(message: AddRequest, settings: CoreConfig, scheduler: Scheduler | None = None) -> str | None:
    request = Request.from_message(message, sequence=0, now=0.0, eos_token_ids=(0,))
    found = refusal(request, scheduler or Scheduler(settings), settings)
    return None if found is None else found.code


def test_the_context_is_prompt_plus_longest_answer() -> None:
    settings = config(layout(1000), max_model_len=100)
    assert code_of(add("a", 90, max_tokens=10), settings) is None
    assert code_of(add("a", 91, max_tokens=10), settings) == "context_length_exceeded"


def test_what_the_pool_can_never_hold_is_refused() -> None:
    settings = config(layout(4), max_model_len=100)
    assert code_of(add("a", 60, max_tokens=5), settings) is None, "the last token needs no page"
    assert code_of(add("a", 60, max_tokens=6), settings) == "context_length_exceeded"


def test_sliding_groups_need_a_window_and_not_the_whole() -> None:
    settings = config(layout(30, windows=(None, 16)), max_model_len=1000, max_num_batched_tokens=16)
    assert code_of(add("a", 16 * 20, max_tokens=1), settings) is None
    settings = config(layout(30, windows=(None, 16)), max_model_len=1000, max_num_batched_tokens=160)
    assert code_of(add("a", 16 * 20, max_tokens=1), settings) == "context_length_exceeded"


def test_a_prompt_larger_than_its_ids_share_of_the_pages_is_refused() -> None:
    settings = config(layout(20))
    for share, code in ((0.5, None), (0.25, None), (0.24, "context_length_exceeded")):
        assert code_of(add("a", 80, max_tokens=200, max_kv_fraction=share), settings) == code


@pytest.mark.parametrize(("prompt", "max_tokens"), [(0, 5), (5, 0)])
def test_nothing_to_do_is_an_error_of_ours(prompt: int, max_tokens: int) -> None:
    assert code_of(add("a", prompt, max_tokens=max_tokens), config()) == "engine_error"


def test_a_full_line_is_an_overload_with_a_time_to_come_back() -> None:
    settings = config(max_num_queued_reqs=1, max_num_seqs=1)
    scheduler = Scheduler(settings)
    for number in range(2):
        assert code_of(add(f"r{number}", 5), settings, scheduler) is None
        scheduler.add(
            Request.from_message(add(f"r{number}", 5), sequence=number, now=0.0, eos_token_ids=(0,))
        )
    request = Request.from_message(add("late", 5), sequence=2, now=0.0, eos_token_ids=(0,))
    assert refusal(request, scheduler, settings) is None, "it could be served"
    found = displaced(request, scheduler)
    assert isinstance(found, Refusal)
    output = found.as_output(request.id)
    assert (output.request_id, output.finish_reason) == ("late", "error")
    assert output.error_code == "server_is_overloaded"
    assert output.retry_after_s == 1.0
