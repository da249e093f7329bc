"""For the operator's machinery: alive, ready, metrics. None of them asks the database."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from gateway.errors import InsufficientPermissions
from gateway.http.auth import Authenticator
from gateway.http.call import Call
from gateway.obs.metrics import CONTENT_TYPE, Metrics

__all__ = ["OpsRoutes", "Readiness"]

JSON = {"content-type": "application/json"}
Readiness = Callable[[], str | None]
"""Why the process is not ready; None when it is."""


class OpsRoutes:
    def __init__(self, auth: Authenticator, metrics: Metrics, why_not_ready: Readiness) -> None:
        self._auth = auth
        self._metrics = metrics
        self._why_not_ready = why_not_ready

    async def healthz(self, call: Call) -> None:
        """The loop turns: that is all liveness may depend on."""
        await call.answer(200, JSON, b'{"status":"ok"}')

    async def readyz(self, call: Call) -> None:
        reason = self._why_not_ready()
        body = {"status": "ready"} if reason is None else {"status": "not ready", "reason": reason}
        await call.answer(200 if reason is None else 503, JSON, orjson.dumps(body))

    async def metrics(self, call: Call) -> None:
        """For every role of the organisation. They tell of all projects, so not for members of some."""
        if (await self._auth.admin(call)).is_member:
            raise InsufficientPermissions("viewer", "role")
        await call.answer(200, {"content-type": CONTENT_TYPE}, self._metrics.render())
