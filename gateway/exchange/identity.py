"""What engines and the ledger may know instead of names: keyed pseudonyms of tenants and end users.

An engine sees an opaque fairness id and a cache salt, the ledger a user reference. The same server key gives
the same values on every gateway, so prefix caches are shared between gateways and never between tenants.
"""

from __future__ import annotations

import hashlib
import hmac
from functools import lru_cache

from gateway.tenancy.principal import Principal

__all__ = ["Pseudonyms"]

REMEMBERED = 10_000
FAIRNESS_BYTES = 8
USER_BYTES = 16


class Pseudonyms:
    def __init__(self, key: bytes) -> None:
        assert key, "an empty key would make salts guessable"
        self._key = key
        self._remembered = lru_cache(REMEMBERED)(self._digest)

    def fairness_id(self, principal: Principal) -> str:
        return self._remembered("fairness", principal.tenant_id)[: FAIRNESS_BYTES * 2]

    def cache_salt(self, principal: Principal) -> str:
        """One per tenant, unless the tenant shares its cache with a group on purpose."""
        if principal.cache_sharing_group is not None:
            return self._remembered("cache-group", principal.cache_sharing_group)
        return self._remembered("cache-tenant", principal.tenant_id)

    def user_ref(self, principal: Principal, user: str | None) -> str | None:
        if user is None:
            return None
        return self._digest("user", f"{principal.tenant_id}\0{user}")[: USER_BYTES * 2]

    def _digest(self, purpose: str, value: str) -> str:
        return hmac.new(self._key, f"{purpose}\0{value}".encode(), hashlib.sha256).hexdigest()
