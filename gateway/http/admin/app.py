"""The admin application: FastAPI behind one door that asks who calls before anything else.

An admin key, or a project's own key: what each may do is the table in access.py.
"""

from __future__ import annotations

import re

import orjson
from fastapi import APIRouter, FastAPI, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from gateway.db import DATABASE_ERRORS, is_unavailable
from gateway.errors import (
    GatewayError,
    InternalError,
    InvalidRequest,
    InvalidValue,
    MethodNotAllowed,
    MissingParameter,
    ServiceUnavailable,
    UnknownUrl,
    brief,
)
from gateway.http.admin.access import PREFIX, guarded_route
from gateway.http.admin.accounts import AccountRoutes
from gateway.http.admin.admin_keys import AdminKeyRoutes
from gateway.http.admin.allowances import AllowanceRoutes
from gateway.http.admin.audit_logs import AuditLogRoutes
from gateway.http.admin.breakdown import BreakdownRoutes
from gateway.http.admin.budget_alerts import BudgetAlertRoutes
from gateway.http.admin.budgets import BudgetRoutes
from gateway.http.admin.callers import caller_of_call
from gateway.http.admin.common import AdminParts, Json, plain_arrays
from gateway.http.admin.costs import CostRoutes
from gateway.http.admin.entries import EntryRoutes
from gateway.http.admin.episodes import EpisodeRoutes
from gateway.http.admin.events import EventRoutes
from gateway.http.admin.exports import ExportRoutes
from gateway.http.admin.idempotency import IdempotencyRoutes
from gateway.http.admin.invitations import InvitationRoutes
from gateway.http.admin.invites import InviteRoutes
from gateway.http.admin.keys import KeyRoutes
from gateway.http.admin.limits import LimitRoutes
from gateway.http.admin.live import LiveRoutes
from gateway.http.admin.me import MeRoutes
from gateway.http.admin.members import MemberRoutes
from gateway.http.admin.objectives import ObjectiveRoutes
from gateway.http.admin.oidc import OidcRoutes
from gateway.http.admin.overview import OverviewRoutes
from gateway.http.admin.password_resets import PasswordResetRoutes
from gateway.http.admin.pools import PoolRoutes
from gateway.http.admin.pricing import PriceRoutes
from gateway.http.admin.project_endpoints import ProjectEndpointRoutes
from gateway.http.admin.projects import ProjectRoutes
from gateway.http.admin.requests import RequestRoutes
from gateway.http.admin.routes import RouteRoutes
from gateway.http.admin.samples import SampleRoutes
from gateway.http.admin.search import SearchRoutes
from gateway.http.admin.sessions import SessionRoutes
from gateway.http.admin.slo import SloRoutes
from gateway.http.admin.spend_alerts import SpendAlertRoutes
from gateway.http.admin.spend_limits import SpendLimitRoutes
from gateway.http.admin.stripe import StripeRoutes
from gateway.http.admin.switch import SwitchRoutes
from gateway.http.admin.usage import UsageRoutes
from gateway.http.admin.users import UserRoutes
from gateway.http.admin.usual import UsualRoutes
from gateway.http.admin.webhook_endpoints import WebhookEndpointRoutes
from gateway.http.browser import visit_of
from gateway.http.call import Call, Message
from gateway.http.description import describe
from gateway.http.errors import render_error
from gateway.http.middleware import Handler
from gateway.ids import TenantId
from gateway.tenancy.projects.repository import ProjectRepository

__all__ = ["AdminParts", "create_admin", "create_application"]


_RESPONSES: dict[int | str, Json] = {"4XX": {"description": "Refused"}}
"""In place of the framework's own 422, which nobody is ever answered."""
PRIVATE = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
"""What people are shown of an organisation is no shared cache's."""
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
RESOURCES = (
    ProjectRoutes,
    AccountRoutes,
    KeyRoutes,
    LimitRoutes,
    MemberRoutes,
    AdminKeyRoutes,
    UserRoutes,
    InviteRoutes,
    InvitationRoutes,
    PasswordResetRoutes,
    OidcRoutes,
    SessionRoutes,
    MeRoutes,
    LiveRoutes,
    OverviewRoutes,
    SearchRoutes,
    AuditLogRoutes,
    RouteRoutes,
    PriceRoutes,
    PoolRoutes,
    SwitchRoutes,
    BudgetRoutes,
    BudgetAlertRoutes,
    AllowanceRoutes,
    IdempotencyRoutes,
    SpendLimitRoutes,
    SpendAlertRoutes,
    EntryRoutes,
    UsageRoutes,
    CostRoutes,
    BreakdownRoutes,
    UsualRoutes,
    RequestRoutes,
    EventRoutes,
    ExportRoutes,
    StripeRoutes,
    ObjectiveRoutes,
    SloRoutes,
    WebhookEndpointRoutes,
    ProjectEndpointRoutes,
    EpisodeRoutes,
    SampleRoutes,
)


def create_admin(parts: AdminParts) -> Handler:
    app = create_application(parts)

    async def handle(call: Call) -> None:
        visit = visit_of(call, parts.auth)
        caller = await caller_of_call(parts, call, visit)
        body = await call.body(parts.body_bytes_max)
        _refuse_nul(call, body)
        _refuse_unreadable(body)
        call.scope["state"] = {"caller": caller, "visit": visit, "request_id": call.request_id}
        call.scope["query_string"] = plain_arrays(call.scope["query_string"])
        unread = [body]

        async def receive() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            return await call.receive()

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *PRIVATE]}
            await call.send(message)

        await app(call.scope, receive, send)

    return handle


def _refuse_nul(call: Call, body: bytes) -> None:
    """No text of ours may hold U+0000: Postgres cannot store it, nor look for it."""
    query = call.scope["query_string"]
    if "\0" in call.path or b"%00" in query or b"\0" in query or _NUL.search(body):
        raise InvalidRequest("The character U+0000 is not allowed.")


def _refuse_unreadable(body: bytes) -> None:
    """Stricter than the framework's reader, which lets NaN through, and halves of characters that no column holds."""
    try:
        if body:
            orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"The body could not be read: {error.msg}.") from None


def create_application(parts: AdminParts) -> FastAPI:
    projects = ProjectRepository()

    async def has_project(project_id: str) -> bool:
        async with parts.database.read() as session:
            return await projects.project(session, TenantId(project_id)) is not None

    async def description() -> Json:
        return describe(app, PREFIX)

    router = APIRouter(
        prefix=PREFIX,
        responses=_RESPONSES,
        route_class=guarded_route(has_project),
        dependencies=[
            Security(HTTPBearer(auto_error=False, description="An admin key, or a project's own."))
        ],
        generate_unique_id_function=_operation_id,
    )
    for resource in RESOURCES:
        resource(parts).register(router)
    router.add_api_route("/openapi.json", description, methods=["GET"])
    # One list of routes, not one per resource inside each other: it can be read, and is searched once.
    app = FastAPI(
        title="Tollway admin API",
        version="1",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        routes=router.routes,
    )
    app.add_exception_handler(GatewayError, _render)
    app.add_exception_handler(RequestValidationError, _render_invalid)
    app.add_exception_handler(HTTPException, _render_http)
    for kind in DATABASE_ERRORS:
        app.add_exception_handler(kind, _render_database)
    app.add_exception_handler(Exception, _render_bug)
    return app


def _operation_id(route: APIRoute) -> str:
    """`post_projects_project_id_api_keys`: a generated client's name for it, the same as long as the path is."""
    [method] = route.methods or {"get"}
    words = re.findall(r"[a-z_]+", route.path.removeprefix(PREFIX))
    return "_".join([method.lower(), *words])


async def _render(request: Request, error: Exception) -> Response:
    assert isinstance(error, GatewayError)
    status, headers, body = render_error(error)
    return Response(body, status, headers)


async def _render_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    param = brief(".".join(str(part) for part in first["loc"][1:])) or None
    if first["type"] == "missing" and param is not None:
        return await _render(request, MissingParameter(param))
    if first["type"] == "json_invalid" or param is None:
        return await _render(request, InvalidRequest(f"The body could not be read: {first['msg']}."))
    return await _render(request, InvalidValue(f"Invalid value for '{param}': {first['msg']}.", param))


async def _render_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    method, path = request.method, request.url.path
    if error.status_code == 400:  # the framework could not read the body: it nests less deeply than ours
        return await _render(request, InvalidRequest("The body could not be read."))
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return await _render(request, MethodNotAllowed(method, path, allowed))
    return await _render(request, UnknownUrl(method, path))


async def _render_database(request: Request, error: Exception) -> Response:
    """A database that is away, or too slow for its timeout, is nobody's bug and no verdict on the key."""
    if not is_unavailable(error):
        raise error
    return await _render(
        request, ServiceUnavailable("The database does not answer. Please retry in a moment.")
    )


async def _render_bug(request: Request, error: Exception) -> Response:
    """The framework raises the error again after this answer, so that the edge logs and counts it."""
    return await _render(request, InternalError(request.state.request_id))
