"""API keys: their format, how one is made, and how one is proved. Pure but for the randomness passed in.

A key is `tw-<8 public>-<43 secret>`. The public part finds the row; of the whole only an HMAC-SHA256 under the
server's pepper is stored, so neither the database alone nor the pepper alone lets anybody in. The value exists
once, in the answer that creates it. This module knows no database and no tenant.
"""

import base64
import hmac
import re
from dataclasses import dataclass, field

from gateway.errors import InvalidApiKey, MissingCredentials
from gateway.ids import Entropy
from gateway.keyring import Keyring, Keys
from gateway.settings import SecuritySettings, SettingsError

__all__ = [
    "ApiKey",
    "Peppers",
    "bearer_key",
    "generate_key",
    "mask_key",
    "master_ring",
    "parse_key",
    "pepper_ring",
]

PUBLIC_BYTES = 5
SECRET_BYTES = 32
_FORMAT = re.compile(r"tw-([a-z2-7]{8})-([A-Za-z0-9_-]{43})")
_PEPPER_BYTES_MIN = 16
LONE_PEPPER_ID = "p1"
"""Of a pepper that stands alone, without an id before it; stored with each key row."""
_MASKED_MIN = 20


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A well-formed key, proved or not. Its `repr` holds no secret."""

    public_id: str
    secret: str = field(repr=False)

    @property
    def value(self) -> str:
        return f"tw-{self.public_id}-{self.secret}"


class Peppers:
    """The server's secrets under which keys are stored: one for new keys, older ones for as long as needed."""

    def __init__(self, ring: Keyring) -> None:
        self._ring = ring
        short = [name for name, pepper in ring.keys.by_id.items() if len(pepper) < _PEPPER_BYTES_MIN]
        if short:
            raise SettingsError(f"pepper {short[0]} is shorter than {_PEPPER_BYTES_MIN} bytes")

    @classmethod
    def of(cls, **by_id: bytes) -> "Peppers":
        """These, the first one for new keys."""
        return cls(Keyring(Keys(by_id)))

    @classmethod
    def from_settings(cls, settings: SecuritySettings) -> "Peppers":
        return cls(pepper_ring(settings))

    def stored(self, key: ApiKey) -> tuple[str, bytes]:
        """The pepper's id and the digest under it, for a row."""
        name, pepper = self._ring.current()
        return name, _digest(pepper, key)

    def proves(self, key: ApiKey, stored: bytes, pepper_id: str) -> bool:
        """Whether the key is the one that was stored, in a time that tells nothing about how near it came."""
        pepper = self._ring.get(pepper_id)
        return pepper is not None and hmac.compare_digest(_digest(pepper, key), stored)

    def is_old(self, pepper_id: str) -> bool:
        """As far as this process has heard: it has another one for new keys."""
        return pepper_id != self._ring.keys.current_id


def pepper_ring(settings: SecuritySettings) -> Keyring:
    """Raises SettingsError without any."""
    if settings.key_pepper is not None:
        pepper = settings.key_pepper.get_secret_value().encode()
        return Keyring(Keys({LONE_PEPPER_ID: pepper}))
    name = "TOLLWAY_SECURITY__KEY_PEPPER_FILE"
    if settings.key_pepper_file is None:
        raise SettingsError(f"set {name}: without a pepper no key can be checked")
    return Keyring.of_file(settings.key_pepper_file, LONE_PEPPER_ID, name)


def master_ring(settings: SecuritySettings) -> Keyring:
    """The master key's, or the pepper's where there is none."""
    if settings.master_key_file is None:
        return pepper_ring(settings)
    return Keyring.of_file(settings.master_key_file, "m1", "TOLLWAY_SECURITY__MASTER_KEY_FILE")


def generate_key(entropy: Entropy) -> ApiKey:
    public = base64.b32encode(entropy(PUBLIC_BYTES)).decode().lower()
    secret = base64.urlsafe_b64encode(entropy(SECRET_BYTES)).decode().rstrip("=")
    return ApiKey(public, secret)


def parse_key(value: str) -> ApiKey | None:
    match = _FORMAT.fullmatch(value)
    return ApiKey(match[1], match[2]) if match else None


def bearer_key(authorization: str | None) -> ApiKey:
    """The key of an Authorization header; what is not one of our keys is answered as an unknown key."""
    scheme, _, value = (authorization or "").strip().partition(" ")
    value = value.strip()
    if scheme.lower() != "bearer" or not value or " " in value:
        raise MissingCredentials
    key = parse_key(value)
    if key is None:
        raise InvalidApiKey(mask_key(value))
    return key


def mask_key(value: str) -> str:
    """Enough for its owner to recognise a key by, and not enough for anybody else. Short values say nothing."""
    key = parse_key(value)
    if key is not None:
        return f"tw-{key.public_id}-***{key.secret[-4:]}"
    if len(value) < _MASKED_MIN or not value.isascii() or not value.isprintable():
        return "***"
    return f"{value[:3]}***{value[-4:]}"


def _digest(pepper: bytes, key: ApiKey) -> bytes:
    return hmac.digest(pepper, key.value.encode(), "sha256")
