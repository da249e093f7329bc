"""Secrets of one machine's installation: random, made once, each in a file that only its owner reads.

Place: passwords of the embedded servers and the keys that `tollway up` gives to its parts.
"""

import base64
import os
from pathlib import Path

from gateway.ids import Entropy

SECRET_BYTES = 24


def secret_in(path: Path, entropy: Entropy = os.urandom) -> str:
    """The secret kept in `path`, made on the first call. URL-safe, so that it may stand in an address."""
    if not path.exists():
        fresh = path.with_name(path.name + ".new")
        fresh.unlink(missing_ok=True)
        fresh.touch(mode=0o600)
        fresh.write_text(base64.urlsafe_b64encode(entropy(SECRET_BYTES)).decode())
        fresh.rename(path)  # a half-written secret is never read
    return path.read_text()
