"""The server's own secrets: named keys in a file, the first one for what is new, the others for what is older.

A file is either one secret, or lines of `id:secret`, and may be changed while gateways run: it is read again when it
has changed and something is sealed, or when an id is met that is not known. A line `root:…` is what salts and
pseudonyms are derived from once the key that they came from is gone. It does not know what the keys are for.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gateway.ids import Entropy
from gateway.settings import SettingsError

__all__ = [
    "Keyring",
    "Keys",
    "SecretBox",
    "added",
    "key_id_of",
    "parse_keys",
    "render_keys",
    "without",
    "write_keys",
]

ROOT = "root"
SECRET_BYTES = 32
NONCE_BYTES = 12
_LINE = re.compile(rb"([a-z0-9]{1,16}):(.+)")
_FORMAT = b"\x02"
"""Of what is sealed with its key's id: format, length of the id, id, nonce, ciphertext. Older: nonce, ciphertext."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Never empty; the first is the current one."""

    by_id: Mapping[str, bytes] = field(repr=False)
    root: bytes | None = field(default=None, repr=False)

    @property
    def current_id(self) -> str:
        return next(iter(self.by_id))

    def derived_root(self) -> bytes:
        """The same as long as the oldest key stays, and after it, since it is written down when that one goes."""
        oldest = [*self.by_id.values()][-1]
        return self.root or hashlib.sha256(b"tollway pseudonyms\0" + oldest).digest()


def parse_keys(content: bytes, default_id: str) -> Keys:
    """A file's content; one secret without an id, whatever bytes it has, gets `default_id`."""
    found = _lines(content)
    if found is None:
        return Keys({default_id: content.strip()})
    root = found.pop(ROOT, None)
    if not found:
        raise SettingsError("a file of keys needs a line `id:secret`")
    return Keys(found, bytes.fromhex(root.decode()) if root is not None else None)


def render_keys(keys: Keys) -> bytes:
    """Raises SettingsError for a secret that is no line of text."""
    lines = [name.encode() + b":" + secret for name, secret in keys.by_id.items()]
    if keys.root is not None:
        lines.append(f"{ROOT}:{keys.root.hex()}".encode())
    content = b"\n".join([*lines, b""])
    if parse_keys(content, "") != keys:
        raise SettingsError(
            "a secret that is not one line of text cannot stand beside others: replace it first"
        )
    return content


def _lines(content: bytes) -> dict[str, bytes] | None:
    """None if it is not made of lines with ids."""
    matches = [_LINE.fullmatch(line.strip()) for line in content.splitlines() if line.strip()]
    found = {match[1].decode(): match[2] for match in matches if match is not None}
    return found if matches and len(found) == len(matches) else None


def added(keys: Keys, entropy: Entropy, *, standby: bool = False) -> Keys:
    """With a new current key, or with the one that stands by; `standby`: with a new one behind the current one, so
    that every machine can have the file before anything is made with it."""
    numbers = {name: int(re.sub(r"\D", "", name) or 0) for name in keys.by_id}
    newest = max(numbers, key=numbers.__getitem__)
    if not standby and numbers[newest] > numbers[keys.current_id]:
        rest = {name: secret for name, secret in keys.by_id.items() if name != newest}
        return Keys({newest: keys.by_id[newest], **rest}, keys.root)
    letter = re.sub(r"\d", "", keys.current_id) or "k"
    fresh = {f"{letter}{numbers[newest] + 1}": entropy(SECRET_BYTES).hex().encode()}
    if not standby:
        return Keys({**fresh, **keys.by_id}, keys.root)
    current = {keys.current_id: keys.by_id[keys.current_id]}
    return Keys({**current, **fresh, **keys.by_id}, keys.root)


def without(keys: Keys, name: str) -> Keys:
    """Raises SettingsError for the current key and for one that is not there. What was derived from it stays."""
    if name == keys.current_id or name not in keys.by_id:
        raise SettingsError(f"{name} is the current key, or no key of this file")
    rest = {key: secret for key, secret in keys.by_id.items() if key != name}
    return Keys(rest, keys.derived_root())


def write_keys(path: Path, keys: Keys) -> None:
    """Whole or not at all, readable by its owner only."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    fresh.touch(mode=0o600)
    fresh.write_bytes(render_keys(keys))
    fresh.replace(path)


class Keyring:
    """The keys as they are now. Without a path they are what they are."""

    def __init__(self, keys: Keys, path: Path | None = None) -> None:
        self._keys = keys
        self._path = path
        self._stamp = self._stamped()

    @classmethod
    def of_file(cls, path: Path, default_id: str, name: str) -> Keyring:
        """Raises SettingsError for a file that cannot be used; `name` is its setting."""
        try:
            keys = parse_keys(path.read_bytes(), default_id)
        except (OSError, ValueError) as error:
            raise SettingsError(f"{name}: {path}: {error}") from None
        if not all(keys.by_id.values()):
            raise SettingsError(f"{name}: {path} is empty")
        return cls(keys, path)

    @property
    def keys(self) -> Keys:
        """As last read."""
        return self._keys

    def current(self) -> tuple[str, bytes]:
        self._refresh()
        return self._keys.current_id, self._keys.by_id[self._keys.current_id]

    def get(self, name: str) -> bytes | None:
        if name not in self._keys.by_id:
            self._refresh()
        return self._keys.by_id.get(name)

    def _refresh(self) -> None:
        stamp = self._stamped()
        if stamp == self._stamp or self._path is None:
            return
        try:
            content = self._path.read_bytes()
            if (
                _lines(content) is not None
            ):  # else it is being replaced, or broken: what was read before holds
                self._keys, self._stamp = parse_keys(content, ""), stamp
        except (OSError, ValueError):
            return

    def _stamped(self) -> tuple[int, ...] | None:
        try:
            found = os.stat(self._path) if self._path is not None else None
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size, found.st_ino) if found is not None else None


class SecretBox:
    """AES-256-GCM under keys that are derived from the ring's for one purpose, bound to what owns the secret."""

    def __init__(self, ring: Keyring, purpose: str, entropy: Entropy) -> None:
        self._ring = ring
        self._purpose = purpose.encode()
        self._entropy = entropy

    def close(self, plain: bytes, owner: bytes) -> bytes:
        name, secret = self._ring.current()
        nonce, id_ = self._entropy(NONCE_BYTES), name.encode()
        return _FORMAT + bytes([len(id_)]) + id_ + nonce + self._cipher(secret).encrypt(nonce, plain, owner)

    def open(self, sealed: bytes, owner: bytes) -> bytes | None:
        """None if it was sealed under a key that is gone, or for another owner."""
        name, rest = key_id_of(sealed)
        secret = self._ring.get(name) if name is not None else None
        found = self._decrypted(secret, rest, owner) if secret is not None else None
        if found is not None:
            return found
        old = (self._decrypted(secret, sealed, owner) for secret in self._ring.keys.by_id.values())
        return next((plain for plain in old if plain is not None), None)

    def is_current(self, sealed: bytes) -> bool:
        return key_id_of(sealed)[0] == self._ring.current()[0]

    def _decrypted(self, secret: bytes, sealed: bytes, owner: bytes) -> bytes | None:
        try:
            return self._cipher(secret).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], owner)
        except (InvalidTag, ValueError):
            return None

    def _cipher(self, secret: bytes) -> AESGCM:
        return AESGCM(hashlib.sha256(b"tollway " + self._purpose + b"\0" + secret).digest())


def key_id_of(sealed: bytes) -> tuple[str | None, bytes]:
    """The id of the key that something is sealed under, and what follows it; None if it was sealed without one."""
    length = sealed[1] if len(sealed) > 1 else 0
    head, rest = sealed[: 2 + length], sealed[2 + length :]
    if sealed[:1] != _FORMAT or not 0 < length <= 16 or len(rest) <= NONCE_BYTES:
        return None, sealed
    name = head[2:]
    return (name.decode(), rest) if name.isascii() and name.isalnum() else (None, sealed)
