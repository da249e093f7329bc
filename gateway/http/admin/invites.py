"""Invites to the organisation: the link goes out by e-mail if an SMTP server is configured, else whoever invites is
shown it, once, and passes it on.

OpenAI knows the roles `owner` and `reader` only: `role` is the nearest of the two, `organization_role` is ours.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import Field

from gateway.alerts.channel import NotDelivered
from gateway.alerts.letters import invitation
from gateway.errors import NotFound
from gateway.http.admin.alert_books import Address
from gateway.http.admin.common import (
    AdminParts,
    After,
    Body,
    Json,
    Limit,
    Name,
    Page,
    actor_of,
    page_of,
    unix,
)
from gateway.http.admin.sessions import visit_in
from gateway.http.admin.users import ROLES, AnyRole, user_json
from gateway.tenancy.people.types import InviteView
from gateway.tenancy.principal import ProjectRole

__all__ = ["InviteRoutes"]

ACCEPT_PAGE = "/console/accept-invite"
"""The console's. The token is behind the `#`, which browsers send to nobody."""


class InvitedProject(Body):
    id: str
    role: ProjectRole


class InviteBody(Body):
    email: Address
    role: AnyRole
    projects: list[InvitedProject] = Field(default=[], max_length=100)


class AcceptBody(Body):
    name: Name


class InviteRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._people = parts.people

    def register(self, router: APIRouter) -> None:
        all_, one = "/invites", "/invites/{invite_id}"
        router.add_api_route(all_, self.create, methods=["POST"])
        router.add_api_route(all_, self.list, methods=["GET"])
        router.add_api_route(one, self.retrieve, methods=["GET"])
        router.add_api_route(f"{one}/link", self.link, methods=["POST"])
        router.add_api_route(f"{one}/accept", self.accept, methods=["POST"])
        router.add_api_route(one, self.delete, methods=["DELETE"])

    async def create(self, request: Request, body: InviteBody) -> Json:
        projects = {project.id: project.role for project in body.projects}
        async with self._p.database.write() as session:
            invite = await self._people.invite(
                session, actor_of(request), body.email, ROLES[body.role], projects
            )
        return await self._with_link(request, invite)

    async def link(self, request: Request, invite_id: str) -> Json:
        """Ours: a new link; the one before it is good no more."""
        async with self._p.database.read() as session:
            found = await self._people.repository.invite(session, invite_id)
        if found is None:
            raise NotFound("No such invite.")
        return await self._with_link(request, found)

    async def list(self, limit: Limit = 20, after: After = None) -> Page:
        async with self._p.database.read() as session:
            rows = await self._people.repository.invites(session, after, limit + 1)
        return page_of([self._shown(row) for row in rows], limit)

    async def retrieve(self, invite_id: str) -> Json:
        async with self._p.database.read() as session:
            found = await self._people.repository.invite(session, invite_id)
        if found is None:
            raise NotFound("No such invite.")
        return self._shown(found)

    async def accept(self, request: Request, invite_id: str, body: AcceptBody) -> Json:
        """Ours: makes the user."""
        people = self._people
        async with self._p.database.write() as session:
            user = await people.accept_invite(session, actor_of(request), invite_id, body.name)
        async with self._p.database.read() as session:
            projects = await people.repository.projects_of(session, [user.id])
        return user_json(user, projects[user.id])

    async def delete(self, request: Request, invite_id: str) -> Json:
        async with self._p.database.write() as session:
            await self._people.delete_invite(session, actor_of(request), invite_id)
        return {"object": "organization.invite.deleted", "id": invite_id, "deleted": True}

    async def _with_link(self, request: Request, invite: InviteView) -> Json:
        """`accept_url` is null when it was mailed; `mail_error` says why it could not be."""
        async with self._p.database.write() as session:
            token = await self._p.invitations.new_token(session, actor_of(request), invite.id)
        link = f"{visit_in(request).origin}{ACCEPT_PAGE}#{token}"
        mail, failed = self._p.mail, None
        if mail is not None:
            try:
                letter = invitation(link, invite.expires_at)
                await mail.post(invite.email, letter, self._p.ids.new("mail"), self._p.clock.now())
            except NotDelivered as error:
                failed = str(error)
        is_mailed = mail is not None and failed is None
        return {
            **self._shown(invite),
            "accept_url": None if is_mailed else link,
            "mailed": is_mailed,
            "mail_error": failed,
        }

    def _shown(self, invite: InviteView) -> Json:
        is_over = invite.expires_at <= self._p.clock.now()
        status = "accepted" if invite.accepted_at is not None else "expired" if is_over else "pending"
        return {
            "object": "organization.invite",
            "id": invite.id,
            "email": invite.email,
            "role": "owner" if invite.role == "owner" else "reader",
            "organization_role": invite.role,
            "projects": [{"id": id_, "role": role} for id_, role in sorted(invite.projects.items())],
            "status": status,
            "created_at": unix(invite.created_at),
            "expires_at": unix(invite.expires_at),
            "accepted_at": unix(invite.accepted_at),
        }
