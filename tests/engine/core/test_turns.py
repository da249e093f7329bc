"""Turns of the ids' prompts: arrival within a turn, less read first, a beginner beside the one that read least."""

from __future__ import annotations

import itertools

from engine.core.fairness import Account
from engine.core.request import Request
from engine.core.turns import TURN_TOKENS, Turns, note_read
from tests.engine.core.harness import add

numbers = itertools.count()


def request(account: Account, prompt: int = 100, **fields: object) -> Request:
    number = next(numbers)
    made = Request.from_message(
        add(f"r{number}", prompt, fairness_id=account.fairness_id, **fields),  # type: ignore[arg-type]
        sequence=number,
        now=0.0,
        eos_token_ids=(),
    )
    made.account = account
    return made


def test_one_id_keeps_the_order_of_arrival_and_classes() -> None:
    account, lower = Account("a", 0.0), Account("a", 0.0)
    batch = request(lower, request_class="batch")
    first, second = request(account), request(account)
    note_read(first, 0, 10 * TURN_TOKENS, 0.0)
    turns = Turns()
    assert turns.order([second, batch, first], []) == [first, second, batch]
    turns.first_rank = 1
    assert turns.order([second, batch, first], []) == [batch, first, second]
    assert turns.room_for([second], first, 1000) == 0


def test_who_had_its_turn_goes_behind_the_others() -> None:
    one, two = Account("one", 0.0), Account("two", 0.0)
    early, late = request(one), request(two)
    turns = Turns()
    assert turns.order([late, early], []) == [early, late]
    note_read(early, 0, TURN_TOKENS, 0.0)
    assert turns.order([late, early], []) == [late, early]
    note_read(late, 0, TURN_TOKENS, 0.0)
    assert turns.order([late, early], []) == [early, late]


def test_a_beginner_starts_beside_the_one_that_has_read_least() -> None:
    one, two, three = (Account(id, 0.0) for id in ("one", "two", "three"))
    a, b = request(one), request(two)
    turns = Turns()
    turns.order([a, b], [])
    note_read(a, 0, 50 * TURN_TOKENS, 0.0)
    note_read(b, 0, 9 * TURN_TOKENS, 0.0)
    c = request(three)
    assert turns.order([a, b, c], []) == [b, c, a]
    assert three.num_read == 9 * TURN_TOKENS


def test_idling_earns_no_turns() -> None:
    one, two = Account("one", 0.0), Account("two", 0.0)
    a, b = request(one), request(two)
    turns = Turns()
    turns.order([a, b], [])
    note_read(a, 0, 50 * TURN_TOKENS, 0.0)
    turns.order([a], [request(Account("three", 0.0))])
    turns.order([a, b], [])
    assert two.num_read >= one.num_read - TURN_TOKENS or two.num_read > 0


def test_a_heavy_id_reads_more_in_a_turn() -> None:
    heavy = Account("heavy", 0.0)
    made = request(heavy, fairness_weight=4.0)
    note_read(made, 0, TURN_TOKENS, 0.0)
    assert heavy.num_read == TURN_TOKENS / 4


def test_room_is_kept_for_those_in_line_whose_turn_is_before() -> None:
    one, two, three = (Account(id, 0.0) for id in ("one", "two", "three"))
    long, heads = request(one, 300), [request(two, 70), request(three, 90)]
    turns = Turns()
    turns.order([long], heads)
    assert turns.room_for(heads, long, 1000) == 0
    note_read(long, 0, TURN_TOKENS, 0.0)
    turns.order([long], heads)
    assert turns.room_for(heads, long, 1000) == 160
    assert turns.room_for(heads, long, 100) == 100
