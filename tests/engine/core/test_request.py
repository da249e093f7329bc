"""What a request knows of itself."""

from __future__ import annotations

from engine.core import policy
from engine.core.fairness import FairQueue
from engine.core.request import CLASSES, Phase, Request
from engine.core.turns import Turns
from engine.core.waiting import WaitingLine
from tests.engine.core.harness import add, config


def made(**fields: object) -> Request:
    return Request.from_message(add("a", 10, **fields), sequence=3, now=1.5, eos_token_ids=(0, 1))  # type: ignore[arg-type]


def test_starts_waiting_with_its_prompt_known_and_nothing_computed() -> None:
    request = made(max_tokens=6)
    assert (request.phase, request.row, request.num_computed) == (Phase.WAITING, -1, 0)
    assert (request.num_tokens, request.num_prompt_tokens, request.max_total_tokens) == (10, 10, 16)
    assert request.num_pending == 10
    assert not request.was_admitted


def test_end_tokens_are_the_models_and_the_callers() -> None:
    assert made(ignore_eos=False, stop_token_ids=(7,)).end_ids == {0, 1, 7}
    assert made(ignore_eos=True, stop_token_ids=(7,)).end_ids == {7}


def test_a_token_sampled_but_not_seen_is_pending_and_unseen() -> None:
    request = made()
    request.num_computed, request.num_tokens = 10, 11
    assert (request.num_pending, request.num_unseen_tokens, request.num_output_tokens) == (1, 1, 0)
    request.token_ids.append(5)
    assert (request.num_unseen_tokens, request.num_output_tokens) == (0, 1)


def test_nothing_is_pending_once_the_last_allowed_token_is_sampled() -> None:
    request = made(max_tokens=1)
    request.num_computed, request.num_tokens = 10, 11
    assert request.num_pending == 0


def test_the_prompt_is_the_requests_own_copy() -> None:
    message = add("a", 10)
    request = Request.from_message(message, sequence=0, now=0.0, eos_token_ids=())
    request.token_ids.append(1)
    assert len(message.prompt_token_ids) == 10


def test_class_rank_orders_interactive_before_batch() -> None:
    assert CLASSES[made(request_class="batch").class_rank] == "batch"
    assert made().class_rank < made(request_class="batch").class_rank


def test_who_was_held_elsewhere_came_before_it_was_taken_up() -> None:
    """One order wherever requests wait or run: by when they came, then as they were taken up."""

    def came(sequence: int, now: float, id: str) -> Request:
        message = add(id, 10, fairness_id=id)
        return Request.from_message(message, sequence=sequence, now=now, eos_token_ids=())

    early, held, late = came(0, 2.0, "early"), came(1, 1.0, "held"), came(2, 2.0, "late")
    wanted = [held, early, late]
    queue, line = FairQueue(), WaitingLine(config())
    for request in (early, held, late):
        queue.push(request)
        line.add(request)
    assert list(queue.candidates()) == wanted
    assert line.overdue(1e9) == wanted
    for request in (early, held, late):
        line.take(request)
        request.num_cached_tokens = 0
        line.put_back(request)
    assert list(line.candidates()) == wanted
    assert Turns().order([early, held, late], []) == wanted
    assert sorted([early, held, late], key=policy.seniority) == wanted
    assert sorted([early, held, late], key=policy.persistence) == wanted[::-1]
