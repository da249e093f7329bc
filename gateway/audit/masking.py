"""What the audit log keeps of a change, without what lets anybody in. Pure; the one door to the log passes through it.

Whoever appends leaves secrets out already. This is for those that stand where nobody looks for them: a flag of an
engine, the user part of an address, a key that was pasted into a name.
"""

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["without_secrets"]

MASK = "***"
_NAME = re.compile(r"(?:^|[-_.])(?:token|secret|password|passphrase|credentials?|api[-_]key)$", re.IGNORECASE)
_KEY = re.compile(r"(tw-[a-z2-7]{8}-)[A-Za-z0-9_-]{43}")
_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def without_secrets(value: Any, name: str = "") -> Any:
    if isinstance(value, Mapping):
        return {key: without_secrets(one, key) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(one, name) for one in value]
    if isinstance(value, str):
        return MASK if _NAME.search(name) else _LOGIN.sub(MASK, _KEY.sub(rf"\g<1>{MASK}", value))
    return value
