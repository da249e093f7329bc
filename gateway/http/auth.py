"""Who is calling: the Authorization header and the caller's address, handed to the key directory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

from gateway.errors import InvalidRequest
from gateway.http.call import Call
from gateway.tenancy import AdminPrincipal, KeyDirectory, Principal
from gateway.tenancy.addresses import Network, client_address, is_allowed

__all__ = ["Authenticator"]


PEERS_REMEMBERED = 1024


class Authenticator:
    def __init__(self, directory: KeyDirectory, trusted_proxies: Sequence[Network]) -> None:
        self._directory = directory
        self._trusted_proxies = trusted_proxies
        self._direct = lru_cache(PEERS_REMEMBERED)(partial(client_address, forwarded_for=None, trusted=()))

    async def tenant(self, call: Call, scope: str | None = None) -> Principal:
        """The tenant comes from the credential and from nothing else that the caller sends."""
        principal = await self._directory.authenticate(_credentials(call), self.address(call))
        call.tenant = principal.tenant_id
        if scope is not None:
            principal.require(scope)
        return principal

    async def admin(self, call: Call) -> AdminPrincipal:
        return await self._directory.authenticate_admin(_credentials(call), self.address(call))

    def address(self, call: Call) -> str | None:
        """Where the caller is, as far as trusted proxies say."""
        if not self._trusted_proxies:
            return self._direct(call.peer)
        return client_address(call.peer, _forwarded_for(call), self._trusted_proxies)

    def is_proxied(self, call: Call) -> bool:
        """The request comes from a trusted proxy, so what that says of the request can be believed."""
        return bool(self._trusted_proxies) and is_allowed(call.peer, self._trusted_proxies)


def _credentials(call: Call) -> str | None:
    """One or none: of two, a proxy before us might have checked the other one."""
    found = call.headers(b"authorization")
    if len(found) > 1:
        raise InvalidRequest("The Authorization header was sent more than once.")
    return found[0] if found else None


def _forwarded_for(call: Call) -> str:
    """A proxy may append a line of its own instead of to the line that a caller made up: the lines are one list."""
    return ",".join(call.headers(b"x-forwarded-for"))
