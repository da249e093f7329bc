"""Who calls the admin API: by an admin key, by a project's own, or by the session that a browser's cookie names.

Place: the first thing that is asked of a call, before its body is read. What the caller may do is access.py's.
"""

from __future__ import annotations

from gateway.audit.repository import Actor
from gateway.errors import InvalidApiKey
from gateway.http.admin.access import OPEN, PREFIX, Caller
from gateway.http.admin.common import AdminParts
from gateway.http.browser import Visit
from gateway.http.call import Call

__all__ = ["caller_of_call"]

SAFE = ("GET", "HEAD")


async def caller_of_call(parts: AdminParts, call: Call, visit: Visit) -> Caller:
    """An administrator's key, or else a project's own: a good one is told what it lacks, not that it is unknown.
    Without a key, whose session the cookie says it is; a cookie comes along with what other sites send, too."""
    peer = parts.auth.address(call)
    if f"{call.method} {call.path.removeprefix(PREFIX)}" in OPEN:
        if call.method not in SAFE:
            visit.require_console()
        return Caller(Actor("user", "unknown", call.request_id, peer))
    if visit.access is not None and call.header(b"authorization") is None:
        if call.method not in SAFE:
            visit.require_console()
        standing = await parts.directory.authenticate(visit.access)
        return Caller.person(standing, Actor("user", standing.user.id, call.request_id, peer))
    try:
        admin = await parts.auth.admin(call)
    except InvalidApiKey:
        reader = await parts.auth.tenant(call)
        return Caller.tenant(reader, Actor("api_key", reader.key_id, call.request_id, peer))
    return Caller.administrator(admin, Actor("admin_key", admin.key_id, call.request_id, peer))
