"""Passwords: which are taken, how they are stored, and that hashing neither stops the loop nor queues for ever."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from gateway.errors import InvalidValue, ServiceUnavailable
from gateway.sessions.passwords import AT_ONCE, CHARS_MAX, WAITING_MAX, Passwords, check_password

GOOD = "correct horse battery"


async def test_a_hash_proves_its_password_and_no_other() -> None:
    passwords = Passwords(os.urandom)
    first, second = await passwords.hash(GOOD), await passwords.hash(GOOD)
    assert first.startswith("$argon2id$v=19$m=65536,t=2,p=1$")
    assert first != second, "each has a salt of its own"
    assert await passwords.proves(GOOD, first)
    assert not await passwords.proves(GOOD + "!", first)
    assert not await passwords.proves(GOOD, "no hash at all")
    assert not passwords.is_old(first)
    assert passwords.is_old("$argon2id$v=19$m=8192,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$" + "A" * 43)


async def test_nobody_costs_what_somebody_costs() -> None:
    """An unknown account is hashed against too, and never signed in, not even with the stand-in's own password."""
    hashed: list[str] = []

    class Counting(Passwords):
        def _verify(self, password: str, stored: str) -> bool:
            hashed.append(stored)
            return super()._verify(password, stored)

    passwords = Counting(os.urandom)
    assert not await passwords.proves("nobody's password, for the time it takes", None)
    assert not await passwords.proves(GOOD, None)
    assert [one.split("$")[3] for one in hashed] == ["m=65536,t=2,p=1"] * 2


async def test_the_same_characters_written_otherwise_are_the_same_password() -> None:
    passwords = Passwords(os.urandom)
    stored = await passwords.hash("Zu\u0308rich \ufb01ne Stra\u00dfe")
    assert await passwords.proves("Z\u00fcrich fine Stra\u00dfe", stored)


@pytest.mark.parametrize(
    "password",
    ["short", "x" * (CHARS_MAX + 1), "aaaaaaaaaaaaaaaa", "Somebody@Example.com", "moc.elpmaxe@ydobemos"],
)
def test_bad_passwords_are_refused_by_name(password: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        check_password(password, "somebody@example.com", "new_password")
    assert refused.value.param == "new_password"


def test_a_long_sentence_is_a_good_password() -> None:
    check_password(GOOD, "somebody@example.com")
    check_password(GOOD, None)
    assert len(GOOD) < CHARS_MAX


async def test_hashing_is_bounded_and_leaves_the_loop_free() -> None:
    running, most, release = 0, 0, threading.Event()
    lock = threading.Lock()

    class Slow(Passwords):
        def _hash(self, password: str) -> str:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            release.wait(60)
            with lock:
                running -= 1
            return "done"

    passwords = Slow(os.urandom)
    waiting = [asyncio.create_task(passwords.hash(GOOD)) for _ in range(WAITING_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(ServiceUnavailable):
        await passwords.hash(GOOD)
    release.set()
    assert await asyncio.gather(*waiting) == ["done"] * WAITING_MAX
    assert most <= AT_ONCE
    assert await passwords.hash(GOOD) == "done", "the line is empty again"
