"""The invited person's side of an invite: what the link's token is for, and accepting it with a password.

Open: the token proves itself. It comes in a body, since an address would be written into logs on its way.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from gateway.http.admin.common import AdminParts, Body, Json, Name, unix
from gateway.http.admin.sessions import Password, granted, visit_in

__all__ = ["InvitationRoutes"]

Token = Annotated[str, Field(max_length=100)]


class LookupBody(Body):
    token: Token


class AcceptInvitationBody(Body):
    token: Token
    name: Annotated[Name, Field(min_length=1, max_length=200)]
    password: Password


class InvitationRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._invitations = parts.invitations

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/invitations/lookup", self.lookup, methods=["POST"])
        router.add_api_route("/invitations/accept", self.accept, methods=["POST"])

    async def lookup(self, body: LookupBody) -> Json:
        found = await self._invitations.find(body.token)
        return {
            "object": "organization.invitation",
            "email": found.email,
            "role": found.role,
            "expires_at": unix(found.expires_at),
        }

    async def accept(self, request: Request, response: Response, body: AcceptInvitationBody) -> Json:
        """Makes the user, and signs them in."""
        visit = visit_in(request)
        grant = await self._invitations.accept(body.token, body.name, body.password, visit.place)
        return granted(response, visit, grant)
