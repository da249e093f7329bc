"""`GET /search`: where the console's search box jumps to. What the caller may not see is not found."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from gateway.http.admin.common import AdminParts, Json, bound_to, caller_of
from gateway.live.repository.search import Search

__all__ = ["SearchRoutes"]

Words = Annotated[str, Query(min_length=2, max_length=200)]


class SearchRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._search = Search()

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/search", self.find, methods=["GET"])

    async def find(self, request: Request, q: Words) -> Json:
        """Projects, keys and models by name or id, a request by its id; a few of each."""
        keys = "GET /projects/{project_id}/api_keys" in caller_of(request).may()
        async with self._p.database.read() as session:
            hits = await self._search.find(session, q.strip(), bound_to(request), keys)
        return {
            "object": "organization.search",
            "data": [
                {"kind": hit.kind, "id": hit.id, "name": hit.name, "project_id": hit.project_id}
                for hit in hits
            ],
        }
