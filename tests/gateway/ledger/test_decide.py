"""Decisions of a batch: exact at the limit, all or nothing over scopes, and no blocking by one that is refused."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.ledger.decide import Ask, BudgetRow, decide, sum_of
from gateway.ledger.types import BudgetKey

A, B = BudgetKey("a", "2026-11"), BudgetKey("b", "2026-11")


def row(key: BudgetKey, limit: int, held: int = 0, spent: int = 0, is_hard: bool = True) -> BudgetRow:
    return BudgetRow(key, "tenant", limit, is_hard, held, spent)


def test_the_limit_itself_may_be_used_up_and_not_a_nanousd_more() -> None:
    rows = {A: row(A, limit=100, held=30, spent=30)}
    assert decide(rows, [Ask(40, (A,))]).refused_by == (None,)
    assert decide(rows, [Ask(41, (A,))]).refused_by == (rows[A],)


def test_a_refused_ask_does_not_block_a_smaller_one_behind_it() -> None:
    decision = decide({A: row(A, limit=100)}, [Ask(60, (A,)), Ask(60, (A,)), Ask(40, (A,))])
    assert [refusal is None for refusal in decision.refused_by] == [True, False, True]
    assert decision.held_nanousd == {A: 100}


def test_an_ask_that_one_scope_refuses_takes_nothing_from_the_others() -> None:
    rows = {A: row(A, limit=1000), B: row(B, limit=10)}
    decision = decide(rows, [Ask(50, (A, B))])
    assert decision.refused_by == (rows[B],)
    assert decision.held_nanousd == {}


def test_a_soft_budget_is_counted_and_never_refuses() -> None:
    decision = decide({A: row(A, limit=10, is_hard=False)}, [Ask(50, (A,)), Ask(50, (A,))])
    assert decision.refused_by == (None, None)
    assert decision.held_nanousd == {A: 100}


def test_without_a_scope_nothing_is_counted() -> None:
    decision = decide({}, [Ask(50, ())])
    assert decision.refused_by == (None,)
    assert decision.held_nanousd == {}


@given(st.integers(0, 500), st.lists(st.tuples(st.integers(0, 100), st.sets(st.sampled_from([A, B])))))
def test_no_batch_overspends_and_none_is_refused_without_need(
    limit: int, asks: list[tuple[int, set[BudgetKey]]]
) -> None:
    rows = {A: row(A, limit=limit, held=20, spent=5), B: row(B, limit=200)}
    batch = [Ask(amount, tuple(sorted(keys))) for amount, keys in asks]
    decision = decide(rows, batch)
    taken = {A: 25, B: 0}
    for ask, refusal in zip(batch, decision.refused_by, strict=True):
        fits = all(taken[key] + ask.amount_nanousd <= rows[key].limit_nanousd for key in ask.keys)
        assert (refusal is None) == fits
        for key in ask.keys if fits else ():
            taken[key] += ask.amount_nanousd
    for key in rows:
        assert (
            decision.held_nanousd.get(key, 0) == taken[key] - rows[key].held_nanousd - rows[key].spent_nanousd
        )


def test_the_sum_of_a_batch_is_what_its_rows_must_have_room_for() -> None:
    assert sum_of([Ask(50, (A,)), Ask(5, (A, B)), Ask(7, ())]) == {A: 55, B: 5}
