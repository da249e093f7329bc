"""A chat from the console: a person with a session talks to a tenant's models, without a key in the browser.

Place: beside the data plane, whose path the request takes from here on: the same limits, budgets and ledger, as the
tenant's. What it is counted under is a key row of that person and tenant, whose secret nobody has; who may use it is
asked of the session and of the table of access at each request, so a logout or a lost membership ends it at once.
"""

from __future__ import annotations

from gateway.errors import Conflict, InvalidRequest, NotFound
from gateway.http.admin.access import CHAT_ROUTE, Caller
from gateway.http.admin.callers import caller_of_call
from gateway.http.admin.common import AdminParts
from gateway.http.browser import visit_of
from gateway.http.call import Call
from gateway.http.openai_routes import OpenAIRoutes
from gateway.http.storage import database_may_be_away
from gateway.ids import KeyId, TenantId, UserId
from gateway.tenancy import KeyDirectory, Principal
from gateway.tenancy.projects.repository import ProjectRepository
from gateway.tenancy.repository import TenancyRepository
from gateway.wire import CHAT

__all__ = ["PlaygroundRoutes"]


class PlaygroundRoutes:
    def __init__(self, parts: AdminParts, keys: KeyDirectory, openai: OpenAIRoutes) -> None:
        self._p = parts
        self._keys = keys
        self._openai = openai
        self._projects = ProjectRepository()
        self._rows = TenancyRepository()

    async def chat(self, call: Call, project_id: str) -> None:
        call.endpoint = CHAT
        caller = await caller_of_call(self._p, call, visit_of(call, self._p.auth))
        caller.require(CHAT_ROUTE, project_id)
        if caller.user_id is None:
            raise InvalidRequest("This key belongs to nobody; a project's own key is what to chat with.")
        with database_may_be_away():
            principal = await self._principal(caller, caller.user_id, TenantId(project_id))
        call.tenant = principal.tenant_id
        await self._openai.generate(call, CHAT, principal)

    async def _principal(self, caller: Caller, user_id: UserId, tenant_id: TenantId) -> Principal:
        async with self._p.database.read() as session:
            project = await self._projects.project(session, tenant_id)
            key_id = await self._rows.personal_key(session, tenant_id, user_id)
        if project is None:
            raise NotFound("No such project.")
        if key_id is None:
            key_id = await self._new_key(caller, user_id, tenant_id)
        principal = await self._keys.standing_for(tenant_id, key_id)
        if principal is None:
            raise Conflict("The project is archived.")
        return principal

    async def _new_key(self, caller: Caller, user_id: UserId, tenant_id: TenantId) -> KeyId:
        async with self._p.database.write() as session:
            return await self._p.tenancy.personal_key(session, caller.actor, tenant_id, user_id)
