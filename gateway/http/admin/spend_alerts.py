"""OpenAI's spend alerts of a project and of the organisation: amounts in US cents of what a month costs.

They watch what is spent in a calendar month (UTC), whether a limit stands on it or not, and are mailed once per month,
and again above a raised amount. A budget's own alerts, which OpenAI has no word for, are in budget_alerts.py.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from gateway.alerts.repository.thresholds import AlertScope
from gateway.alerts.types import SpendAlertView
from gateway.http.admin.alert_books import Address, AlertBooks, Cursor, Order, Prefix, turned_page
from gateway.http.admin.common import AdminParts, After, Body, Json, Limit, Page
from gateway.http.admin.spend_limits import CENTS_MAX
from gateway.money import NANOUSD_PER_CENT

__all__ = ["SpendAlertRoutes"]


class NotificationChannel(Body):
    type: Literal["email"]
    recipients: Annotated[list[Address], Field(min_length=1, max_length=20)]
    subject_prefix: Prefix | None = None


class SpendAlertBody(Body):
    currency: Literal["USD"]
    interval: Literal["month"]
    notification_channel: NotificationChannel
    threshold_amount: Annotated[int, Field(ge=1, le=CENTS_MAX)]


class SpendAlertRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._books = AlertBooks(parts)

    def register(self, router: APIRouter) -> None:
        all_, one = "/spend_alerts", "/spend_alerts/{alert_id}"
        router.add_api_route(all_, self.create, methods=["POST"])
        router.add_api_route(all_, self.list, methods=["GET"])
        router.add_api_route(one, self.retrieve, methods=["GET"])
        router.add_api_route(one, self.update, methods=["POST"])
        router.add_api_route(one, self.delete, methods=["DELETE"])
        project = "/projects/{project_id}"
        router.add_api_route(project + all_, self.create_of_project, methods=["POST"])
        router.add_api_route(project + all_, self.list_of_project, methods=["GET"])
        router.add_api_route(project + one, self.retrieve_of_project, methods=["GET"])
        router.add_api_route(project + one, self.update_of_project, methods=["POST"])
        router.add_api_route(project + one, self.delete_of_project, methods=["DELETE"])

    async def create(self, request: Request, body: SpendAlertBody) -> Json:
        return await self._create(request, None, body)

    async def create_of_project(self, request: Request, project_id: str, body: SpendAlertBody) -> Json:
        return await self._create(request, project_id, body)

    async def list(
        self, limit: Limit = 20, after: After = None, before: After = None, order: Order = "desc"
    ) -> Page:
        return await self._page(None, Cursor(limit, after, before, order))

    async def list_of_project(
        self,
        project_id: str,
        limit: Limit = 20,
        after: After = None,
        before: After = None,
        order: Order = "desc",
    ) -> Page:
        return await self._page(project_id, Cursor(limit, after, before, order))

    async def retrieve(self, alert_id: str) -> Json:
        return await self._retrieve(None, alert_id)

    async def retrieve_of_project(self, project_id: str, alert_id: str) -> Json:
        return await self._retrieve(project_id, alert_id)

    async def update(self, request: Request, alert_id: str, body: SpendAlertBody) -> Json:
        return await self._update(request, None, alert_id, body)

    async def update_of_project(
        self, request: Request, project_id: str, alert_id: str, body: SpendAlertBody
    ) -> Json:
        return await self._update(request, project_id, alert_id, body)

    async def delete(self, request: Request, alert_id: str) -> Json:
        return await self._delete(request, None, alert_id)

    async def delete_of_project(self, request: Request, project_id: str, alert_id: str) -> Json:
        return await self._delete(request, project_id, alert_id)

    async def _create(self, request: Request, project_id: str | None, body: SpendAlertBody) -> Json:
        alert = self._wanted(self._p.ids.new("alert"), project_id, body)
        async with self._p.database.write() as session:
            await self._books.create(session, request, alert)
        return _alert(alert)

    async def _page(self, project_id: str | None, cursor: Cursor) -> Page:
        async with self._p.database.read() as session:
            rows = await self._books.page(session, AlertScope(project_id), cursor)
        return turned_page([_alert(row) for row in rows], cursor)

    async def _retrieve(self, project_id: str | None, alert_id: str) -> Json:
        async with self._p.database.read() as session:
            return _alert(await self._books.retrieve(session, AlertScope(project_id), alert_id))

    async def _update(
        self, request: Request, project_id: str | None, alert_id: str, body: SpendAlertBody
    ) -> Json:
        wanted = self._wanted(alert_id, project_id, body)
        async with self._p.database.write() as session:
            alert = await self._books.update(session, request, AlertScope(project_id), wanted)
        return _alert(alert)

    async def _delete(self, request: Request, project_id: str | None, alert_id: str) -> Json:
        async with self._p.database.write() as session:
            await self._books.delete(session, request, AlertScope(project_id), alert_id)
        return {"object": f"{_owner(project_id)}.spend_alert.deleted", "id": alert_id, "deleted": True}

    def _wanted(self, alert_id: str, project_id: str | None, body: SpendAlertBody) -> SpendAlertView:
        channel = body.notification_channel
        return SpendAlertView(
            id=alert_id,
            tenant_id=project_id,
            budget_id=None,
            threshold_nanousd=body.threshold_amount * NANOUSD_PER_CENT,
            threshold_percent=None,
            recipients=tuple(channel.recipients),
            subject_prefix=channel.subject_prefix,
            created_at=self._p.clock.now(),
        )


def _owner(project_id: str | None) -> str:
    return "project" if project_id is not None else "organization"


def _alert(alert: SpendAlertView) -> Json:
    assert alert.threshold_nanousd is not None, "these are amounts"
    return {
        "object": f"{_owner(alert.tenant_id)}.spend_alert",
        "id": alert.id,
        "currency": "USD",
        "interval": "month",
        "threshold_amount": alert.threshold_nanousd // NANOUSD_PER_CENT,
        "notification_channel": {
            "type": "email",
            "recipients": [*alert.recipients],
            "subject_prefix": alert.subject_prefix,
        },
    }
