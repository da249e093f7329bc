"""Who is calling: the Authorization header and the caller's address, handed to the key directory."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.http.call import Call
from gateway.tenancy import AdminPrincipal, KeyDirectory, Principal
from gateway.tenancy.addresses import Network, client_address

__all__ = ["Authenticator"]


class Authenticator:
    def __init__(self, directory: KeyDirectory, trusted_proxies: Sequence[Network]) -> None:
        self._directory = directory
        self._trusted_proxies = trusted_proxies

    async def tenant(self, call: Call, scope: str | None = None) -> Principal:
        """The tenant comes from the credential and from nothing else that the caller sends."""
        principal = await self._directory.authenticate(call.header(b"authorization"), self.address(call))
        call.tenant = principal.tenant_id
        if scope is not None:
            principal.require(scope)
        return principal

    async def admin(self, call: Call) -> AdminPrincipal:
        return await self._directory.authenticate_admin(call.header(b"authorization"), self.address(call))

    def address(self, call: Call) -> str | None:
        """Where the caller is, as far as trusted proxies say."""
        return client_address(call.peer, call.header(b"x-forwarded-for"), self._trusted_proxies)
