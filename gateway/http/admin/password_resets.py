"""A lost password: an owner makes a link for somebody, or they have a code mailed to themselves.

The routes under `/password_resets` are open. Whether there is an account is not to be learnt from them: what is asked for
is answered before anybody is looked up.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Request, Response
from pydantic import Field

from gateway.alerts.channel import NotDelivered
from gateway.alerts.letters import new_password
from gateway.alerts.mail import MailChannel
from gateway.db import DATABASE_ERRORS
from gateway.errors import Conflict
from gateway.http.admin.common import AdminParts, Body, Json, actor_of, unix
from gateway.http.admin.sessions import Password, granted, visit_in
from gateway.obs.logging import get_logger

__all__ = ["PasswordResetRoutes"]

RESET_PAGE = "/console/new-password"
"""The console's. The token is behind the `#`, which browsers send to nobody."""
Token = Annotated[str, Field(max_length=200)]


class RequestResetBody(Body):
    email: Annotated[str, Field(min_length=1, max_length=254)]


class LookupResetBody(Body):
    token: Token


class AcceptResetBody(Body):
    token: Token
    password: Password


class PasswordResetRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._resets = parts.resets
        self._log = get_logger(__name__)

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/users/{user_id}/password_link", self.link, methods=["POST"])
        router.add_api_route("/password_resets", self.create, methods=["POST"])
        router.add_api_route("/password_resets/lookup", self.lookup, methods=["POST"])
        router.add_api_route("/password_resets/accept", self.accept, methods=["POST"])

    async def link(self, request: Request, user_id: str) -> Json:
        """Ours: to be passed on by whoever asks for it. Good once, for a day, and shown in this answer alone."""
        async with self._p.database.write() as session:
            reset = await self._resets.by_owner(session, actor_of(request), user_id)
        return {
            "object": "organization.user.password_link",
            "user_id": user_id,
            "email": reset.email,
            "url": f"{visit_in(request).origin}{RESET_PAGE}#{reset.token}",
            "expires_at": unix(reset.ends_at),
        }

    async def create(self, request: Request, body: RequestResetBody, later: BackgroundTasks) -> Json:
        """Mails a code to who has this address and a password. 409 where no mail can be sent."""
        mail = self._p.mail
        if mail is None:
            raise Conflict("No mail can be sent from here. An owner can make a link for a new password.")
        await self._resets.count_request(body.email, visit_in(request).place)
        later.add_task(self._post, mail, body.email)
        return {"object": "organization.password_reset.requested", "requested": True}

    async def lookup(self, body: LookupResetBody) -> Json:
        found = await self._resets.find(body.token)
        return {
            "object": "organization.password_reset",
            "email": found.email,
            "expires_at": unix(found.ends_at),
        }

    async def accept(self, request: Request, response: Response, body: AcceptResetBody) -> Json:
        """Signs in with the new password; every other session ends."""
        visit = visit_in(request)
        return granted(response, visit, await self._resets.accept(body.token, body.password, visit.place))

    async def _post(self, mail: MailChannel, email: str) -> None:
        try:
            reset = await self._resets.by_mail(email)
            if reset is not None:
                letter = new_password(reset.token, reset.ends_at)
                await mail.post(reset.email, letter, self._p.ids.new("mail"), self._p.clock.now())
        except (NotDelivered, *DATABASE_ERRORS) as error:
            self._log.error("a code for a new password was not mailed", error=repr(error))
