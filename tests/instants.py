"""The one instant for tests in which a real clock has a say: the machine's, or Postgres' `now()`.

The product judges by age: what ended a day ago is late, a month closes three days after its end, evidence and keys
expire. Beside a real clock an instant that is written down turns red on some later day. Where every clock is injected,
write instants down: only they reach the ends of months and years.
"""

from datetime import UTC, datetime

__all__ = ["just_now"]


def just_now() -> datetime:
    """Of a day that may end before the test does: compare with what was computed from the same call."""
    return datetime.now(UTC)
