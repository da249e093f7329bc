"""Seeds of random tests: each test has its own, the same in every run, so that a red test is the change's doing.

`TEST_SEED=random` draws new ones, for whoever looks for what nobody thought of; `TEST_SEED=123` repeats one. Property
tests follow it too (`tests/conftest.py`).
"""

import os
import random
import zlib

__all__ = ["are_fixed", "seed_of_test"]

_VARIABLE = "TEST_SEED"


def are_fixed() -> bool:
    return os.environ.get(_VARIABLE) != "random"


def seed_of_test() -> int:
    """Of the test that runs now, below 2**31; printed, so that a failure can be repeated."""
    if not are_fixed():
        seed = random.SystemRandom().randrange(1 << 31)
    elif _VARIABLE in os.environ:
        seed = int(os.environ[_VARIABLE])
    else:
        name, _, _ = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")  # behind it stands the phase
        seed = zlib.crc32(name.encode()) >> 1
    print(f"seed={seed}")
    return seed
