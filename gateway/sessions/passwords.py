"""Passwords: what may be one, and their Argon2id hashes, made in threads and few at a time.

Place: under service.py. A hash takes tens of milliseconds and 64 MiB on purpose, so the event loop never waits for
one, and a flood of sign-ins waits in a bounded line. It knows no users.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable
from typing import TypeVar

import argon2
from argon2.low_level import Type, hash_secret

from gateway.errors import InvalidValue, ServiceUnavailable
from gateway.ids import Entropy

__all__ = ["CHARS_MAX", "CHARS_MIN", "Passwords", "check_password"]

CHARS_MIN = 12
CHARS_MAX = 1024
AT_ONCE = 2
WAITING_MAX = 32
TIME_COST, MEMORY_KIB, LANES = 2, 64 * 1024, 1
SALT_BYTES, HASH_BYTES = 16, 32

Done = TypeVar("Done")


def check_password(password: str, address: str | None, param: str = "password") -> None:
    """Length is what counts. Raises 400 naming `param`."""
    if not CHARS_MIN <= len(password) <= CHARS_MAX:
        raise InvalidValue(f"A password has {CHARS_MIN} to {CHARS_MAX} characters.", param)
    plain = _normal(password).lower()
    if len(set(plain)) < 5 or (address is not None and plain in (address.lower(), address.lower()[::-1])):
        raise InvalidValue("This password is too easy to guess.", param)


class Passwords:
    def __init__(self, entropy: Entropy, memory_kib: int = MEMORY_KIB) -> None:
        self._entropy = entropy
        self._memory_kib = memory_kib
        self._hasher = argon2.PasswordHasher(TIME_COST, memory_kib, LANES, HASH_BYTES, SALT_BYTES)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0
        self._nobody: str | None = None

    async def hash(self, password: str) -> str:
        """PHC string. Raises 503 when too many wait already."""
        return await self._apart(lambda: self._hash(password))

    async def proves(self, password: str, stored: str | None) -> bool:
        """The same work when there is no stored hash, so that the time does not tell whether there is an account."""
        if stored is None and self._nobody is None:
            self._nobody = await self.hash("nobody's password, for the time it takes")
        good = await self._apart(lambda: self._verify(password, stored or self._nobody or ""))
        return good and stored is not None

    def is_old(self, stored: str) -> bool:
        """Made with other parameters than today's."""
        return self._hasher.check_needs_rehash(stored)

    def _hash(self, password: str) -> str:
        made = hash_secret(
            _normal(password).encode(),
            self._entropy(SALT_BYTES),
            TIME_COST,
            self._memory_kib,
            LANES,
            HASH_BYTES,
            Type.ID,
        )
        return made.decode()

    def _verify(self, password: str, stored: str) -> bool:
        try:
            return self._hasher.verify(stored, _normal(password).encode())
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
            return False

    async def _apart(self, work: Callable[[], Done]) -> Done:
        if self._waiting >= WAITING_MAX:
            raise ServiceUnavailable("Too many people sign in at this moment. Please retry.")
        self._waiting += 1
        try:
            async with self._slots:
                return await asyncio.to_thread(work)
        finally:
            self._waiting -= 1


def _normal(password: str) -> str:
    """What keyboards write differently and eyes cannot tell apart is the same password."""
    return unicodedata.normalize("NFKC", password)
