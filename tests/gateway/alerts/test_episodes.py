"""Episodes fire once and end once; what flickers is one of them; what is silenced is told when the silence ends."""

from __future__ import annotations

import random
from datetime import timedelta

from gateway.alerts.episodes import Level, Signal, Steps
from tests.gateway.alerts.logbook import Logbook
from tests.seeds import seed_of_test


class Book(Logbook):
    """Scopes by keyword, each with its level."""

    def __init__(self) -> None:
        super().__init__(lambda _: timedelta(minutes=5))

    def tell(self, minute: int, **levels: Level) -> Steps:
        return self.look(minute, [Signal(scope, "page", level, {}) for scope, level in levels.items()])


def test_it_fires_once_and_is_over_after_the_hold() -> None:
    book = Book()
    for minute in range(30):
        book.tell(minute, a="firing" if 3 <= minute < 10 else "quiet")
    assert book.log == [(3, "fired", "a"), (15, "resolved", "a")]


def test_between_neither_begins_nor_ends_one() -> None:
    book = Book()
    for minute in range(10):
        book.tell(minute, a="between")
    assert book.log == []
    book.tell(10, a="firing")
    for minute in range(11, 60):
        book.tell(minute, a="between")
    assert book.log == [(10, "fired", "a")]


def test_a_scope_that_is_gone_is_quiet() -> None:
    book = Book()
    book.tell(0, a="firing", b="firing")
    for minute in range(1, 8):
        book.tell(minute, b="firing")
    assert book.log == [(0, "fired", "a"), (0, "fired", "b"), (6, "resolved", "a")]


def test_whatever_flickers_faster_than_the_hold_is_one_episode() -> None:
    seed = seed_of_test()
    draw, book, minute = random.Random(seed), Book(), 0
    while minute < 500:
        book.tell(minute, a="firing")
        for _ in range(draw.randrange(5)):
            minute += 1
            book.tell(minute, a="quiet")
        minute += 1
    assert [what for _, what, _ in book.log] == ["fired"]
    for later in range(minute, minute + 10):
        book.tell(later, a="quiet")
    assert [what for _, what, _ in book.log] == ["fired", "resolved"]


def test_a_silenced_one_is_told_when_the_silence_ends_before_it_does() -> None:
    book = Book()
    book.is_silent = True
    for minute in range(10):
        book.tell(minute, a="firing")
    assert book.log == [(0, "fired", "a")]
    book.is_silent = False
    for minute in range(10, 13):
        book.tell(minute, a="firing")
    assert book.log[1:] == [(10, "announced", "a")]


def test_one_that_ends_with_its_silence_is_not_told() -> None:
    book = Book()
    book.is_silent = True
    book.tell(0, a="firing")
    for minute in range(1, 6):
        book.tell(minute, a="quiet")
    book.is_silent = False
    assert not book.tell(6, a="quiet").announce
    assert book.log == [(0, "fired", "a"), (6, "resolved", "a")]


def test_nothing_to_do_is_said() -> None:
    assert Book().tell(0, a="quiet").is_empty
