"""What is remembered of compilations, and for how long."""

from __future__ import annotations

from engine.grammar.cache import GrammarCache
from engine.grammar.compiler import Outcome


def _outcome(name: str, size: int) -> Outcome:
    return Outcome(("ebnf", name), object(), size)


def test_the_least_recently_used_goes_first() -> None:
    cache = GrammarCache(10_000)
    for name in "abc":
        cache.put(_outcome(name, 2500))
    assert cache.get(("ebnf", "a")) is not None
    cache.put(_outcome("d", 2500))
    assert [name for name in "abcd" if cache.get(("ebnf", name))] == ["a", "c", "d"]
    assert cache.num_bytes <= 10_000


def test_refusals_are_kept_and_take_room_too() -> None:
    cache = GrammarCache(10_000)
    cache.put(Outcome(("ebnf", "("), error="no"))
    found = cache.get(("ebnf", "("))
    assert found is not None
    assert found.error == "no"
    for index in range(100):
        cache.put(Outcome(("ebnf", f"{index:0500}"), error="no"))
    assert cache.num_bytes <= 10_000
    assert 0 < len(cache) < 20


def test_what_is_larger_than_everything_is_not_kept() -> None:
    cache = GrammarCache(10_000)
    cache.put(_outcome("a", 100))
    cache.put(_outcome("b", 10_000))
    cache.put(_outcome("a", 100))
    assert cache.get(("ebnf", "b")) is None
    assert (len(cache), cache.get(("ebnf", "a")) is not None) == (1, True)


def test_the_kind_is_part_of_the_name() -> None:
    cache = GrammarCache(10_000)
    cache.put(_outcome("a", 100))
    assert cache.get(("choice", "a")) is None
