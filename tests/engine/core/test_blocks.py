"""The page pool, by itself and against a slow model of it."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from engine.core.blocks import BlockPool


def filled(pool: BlockPool, *names: str) -> list[int]:
    pages = pool.allocate(len(names))
    for page, name in zip(pages, names, strict=True):
        pool.publish(page, name)
    return pages


def test_allocate_and_release_keep_the_counts() -> None:
    pool = BlockPool(4)
    pages = pool.allocate(3)
    assert len(set(pages)) == 3
    assert (pool.num_free, pool.num_held) == (1, 3)
    pool.share(pages[0])
    pool.release(pages)
    assert (pool.num_free, pool.num_held) == (3, 1)
    pool.check_integrity({pages[0]: 1})
    pool.release([pages[0]])
    pool.check_integrity({})


def test_a_free_page_is_a_hit_until_it_is_reused() -> None:
    pool = BlockPool(3)
    pages = filled(pool, "a", "b", "c")
    pool.release(reversed(pages))
    assert pool.find("a") == pages[0]
    assert pool.allocate(1) == [pages[2]], "the tail was freed first and is reused first"
    assert not pool.contains("c")
    assert pool.contains("a")
    pool.check_integrity({pages[2]: 1})


def test_a_hit_leaves_the_middle_of_the_free_list() -> None:
    pool = BlockPool(3)
    a, b, c = filled(pool, "a", "b", "c")
    pool.release([a, b, c])
    pool.share(b)
    assert pool.num_free == 2
    pool.check_integrity({b: 1})
    assert pool.allocate(2) == [a, c]
    assert pool.find("b") == b


def test_using_a_hit_makes_it_the_last_to_go() -> None:
    pool = BlockPool(3)
    a, b, c = filled(pool, "a", "b", "c")
    pool.release([a, b, c])
    pool.share(a)
    pool.release([a])
    assert pool.allocate(3) == [b, c, a]


def test_pages_without_content_are_reused_before_any_hit_is_lost() -> None:
    pool = BlockPool(4)
    pages = filled(pool, "a", "b")
    plain = pool.allocate(2)
    pool.release([*pages, *plain])
    assert set(pool.allocate(2)) == set(plain)
    assert pool.contains("a")
    assert pool.contains("b")


def test_of_two_pages_with_the_same_content_the_first_keeps_the_name() -> None:
    pool = BlockPool(2)
    first, second = pool.allocate(2)
    pool.publish(first, "a")
    pool.publish(second, "a")
    assert pool.find("a") == first
    pool.release([second])
    assert pool.find("a") == first
    pool.check_integrity({first: 1})


def test_forgotten_content_is_not_found() -> None:
    pool = BlockPool(2)
    (page,) = filled(pool, "a")
    pool.forget(page)
    pool.forget(page)
    assert pool.find("a") is None
    pool.check_integrity({page: 1})


def test_mistakes_of_the_caller_are_caught() -> None:
    pool = BlockPool(2)
    (page,) = pool.allocate(1)
    with pytest.raises(AssertionError, match="3 pages asked for"):
        pool.allocate(3)
    pool.release([page])
    with pytest.raises(AssertionError, match="released twice"):
        pool.release([page])
    (named,) = filled(pool, "b")
    with pytest.raises(AssertionError, match="published already"):
        pool.publish(named, "c")
    pool.release([named])
    with pytest.raises(AssertionError, match="only a held page"):
        pool.publish(page, "a")


def test_check_integrity_sees_a_wrong_reference() -> None:
    pool = BlockPool(3)
    pages = pool.allocate(2)
    with pytest.raises(AssertionError, match="differ"):
        pool.check_integrity({pages[0]: 1})
    with pytest.raises(AssertionError, match="differ"):
        pool.check_integrity({pages[0]: 2, pages[1]: 1})
    pool.check_integrity(dict.fromkeys(pages, 1))


def test_check_integrity_sees_a_page_that_is_held_and_free() -> None:
    pool = BlockPool(3)
    (page,) = pool.allocate(1)
    pool._link(page)
    with pytest.raises(AssertionError, match="total"):
        pool.check_integrity({page: 1})


def _circle(pool: BlockPool) -> None:
    pool._next[2] = 1


def _torn(pool: BlockPool) -> None:
    pool._prev[2] = 3


def _miscounted(pool: BlockPool) -> None:
    pool.num_free += 1


def _lost(pool: BlockPool) -> None:
    pool._unlink(2)


def _swapped(pool: BlockPool) -> None:
    pool._link(0)
    pool._unlink(2)


def _misnamed(pool: BlockPool) -> None:
    pool._names[0] = "b"


def _unlisted(pool: BlockPool) -> None:
    pool._names[2] = "b"


@pytest.mark.parametrize(
    ("damage", "seen"),
    [
        (_circle, "runs in a circle"),
        (_torn, "is torn"),
        (_miscounted, "miscounted"),
        (_lost, "!= total"),
        (_swapped, "a held page is in the free list"),
        (_misnamed, "names and pages differ"),
        (_unlisted, "a name that is not found"),
    ],
)
def test_check_integrity_sees_every_damage(damage: Callable[[BlockPool], None], seen: str) -> None:
    pool = BlockPool(4)
    (held,) = filled(pool, "a")
    pool.check_integrity({held: 1})
    damage(pool)
    with pytest.raises(AssertionError, match=seen):
        pool.check_integrity({held: 1})


@pytest.mark.parametrize("seed", range(5))
def test_random_use_keeps_every_invariant(seed: int) -> None:
    print("seed", seed)
    rng = random.Random(seed)
    pool, held, counter = BlockPool(12), {}, 0
    for _ in range(2000):
        action = rng.random()
        if action < 0.35 and pool.num_free:
            for page in pool.allocate(rng.randint(1, pool.num_free)):
                held[page] = 1
                if rng.random() < 0.7:
                    pool.publish(page, counter := counter + 1)
        elif action < 0.5 and counter:
            page = pool.find(rng.randint(max(1, counter - 12), counter))
            if page is not None:
                pool.share(page)
                held[page] = held.get(page, 0) + 1
        elif held:
            page = rng.choice(sorted(held))
            pool.release([page])
            held[page] -= 1
            held = {page: count for page, count in held.items() if count}
        pool.check_integrity(held)
        assert pool.num_held == len(held)
