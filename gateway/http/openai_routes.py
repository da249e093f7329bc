"""OpenAI's data-plane endpoints: bytes in, principal and parsed request to the pipeline, bytes out."""

from __future__ import annotations

import orjson

from gateway.errors import ModelNotFound, ServerError, ServiceUnavailable
from gateway.exchange import Sink
from gateway.exchange.responses import ResponseSink
from gateway.http.auth import Authenticator
from gateway.http.call import Call, Disconnect
from gateway.http.idempotent import KeepingSink, replay_headers
from gateway.idempotency import Idempotency, StoredAnswer
from gateway.ids import RequestId
from gateway.ledger.notebook import Notebook
from gateway.obs.logging import bind_request
from gateway.pipeline import Caller, Pipeline
from gateway.routing import Catalogue, Target
from gateway.tenancy.principal import MODEL_SCOPE, Principal
from gateway.wire import CHAT, COMPLETIONS, EMBEDDINGS, Endpoint, GenerationRequest, parse_generation
from gateway.wire.request import RESPONSES
from gateway.wire.responses import AskedResponse, parse_response

__all__ = ["OpenAIRoutes"]

JSON = {"content-type": "application/json"}
OWNER = "tollway"
RETRY_COUNT_DIGITS = 3
UNKNOWN_MODEL = "(unknown)"
"""In logs and metrics, for whatever a caller calls a model that it has no route to."""


class OpenAIRoutes:
    def __init__(
        self,
        auth: Authenticator,
        pipeline: Pipeline,
        catalogue: Catalogue,
        notebook: Notebook,
        idempotency: Idempotency,
        body_bytes_max: int,
    ) -> None:
        self._auth = auth
        self._pipeline = pipeline
        self._catalogue = catalogue
        self._notebook = notebook
        self._idempotency = idempotency
        self._body_bytes_max = body_bytes_max

    async def chat_completions(self, call: Call) -> None:
        await self._generate(call, CHAT)

    async def completions(self, call: Call) -> None:
        await self._generate(call, COMPLETIONS)

    async def embeddings(self, call: Call) -> None:
        await self._generate(call, EMBEDDINGS)

    async def responses(self, call: Call) -> None:
        await self._generate(call, RESPONSES)

    async def models(self, call: Call) -> None:
        call.endpoint = "models"
        principal = await self._auth.tenant(call, MODEL_SCOPE)
        self._require_catalogue()
        data = [_model(target) for target in self._catalogue.names(principal.tenant_id)]
        await call.answer(200, JSON, orjson.dumps({"object": "list", "data": data}))

    async def model(self, call: Call, name: str) -> None:
        call.endpoint = "models"
        principal = await self._auth.tenant(call, MODEL_SCOPE)
        self._require_catalogue()
        target = self._catalogue.resolve(principal.tenant_id, name)
        if target is None:
            raise ModelNotFound(name)
        await call.answer(200, JSON, orjson.dumps(_model(target)))

    async def _generate(self, call: Call, endpoint: Endpoint) -> None:
        call.endpoint = endpoint
        await self.generate(call, endpoint, await self._caller(call))

    async def generate(self, call: Call, endpoint: Endpoint, principal: Principal) -> None:
        """For a caller who is known."""
        bind_request(call.request_id, principal.tenant_id)
        body = await call.body(self._body_bytes_max)
        asked = parse_response(body) if endpoint == RESPONSES else None
        request = asked.request if asked is not None else parse_generation(endpoint, body)
        is_known = self._catalogue.resolve(principal.tenant_id, request.model) is not None
        call.model = request.model if is_known else UNKNOWN_MODEL
        caller = Caller(
            principal,
            _retry_count(call.header(b"x-stainless-retry-count")),
            traceparent=call.header(b"traceparent"),
        )
        key = call.header(b"idempotency-key")
        if key is None or not principal.is_idempotent:
            await self._run(call, caller, request, call, asked)
            return
        claim = await self._idempotency.begin(
            principal.tenant_id, key, endpoint, body, RequestId(call.request_id)
        )
        if isinstance(claim, StoredAnswer):
            await call.answer(200, replay_headers(claim), claim.body)
            return
        try:
            await self._run(call, caller, request, KeepingSink(call, claim), asked)
        finally:
            claim.close()

    async def _run(
        self,
        call: Call,
        caller: Caller,
        request: GenerationRequest,
        sink: Sink,
        asked: AskedResponse | None,
    ) -> None:
        request_id = RequestId(call.request_id)
        if asked is not None:
            response = ResponseSink(sink, asked, request_id)
            sink, call.error_event = response, response.error_event
        async with Disconnect(call):
            await self._pipeline.run(caller, request, request_id, sink)

    async def _caller(self, call: Call) -> Principal:
        """Whoever could not be told because something of ours is away counts as turned away by us."""
        try:
            return await self._auth.tenant(call, MODEL_SCOPE)
        except ServerError as error:
            self._notebook.refused("", "", "", error.code or error.type)
            raise

    def _require_catalogue(self) -> None:
        if not self._catalogue.is_loaded:
            raise ServiceUnavailable("The service is starting. Please retry in a moment.")


def _model(target: Target) -> dict[str, str | int]:
    created = int(target.created_at.timestamp())
    return {"id": target.served_model, "object": "model", "created": created, "owned_by": OWNER}


def _retry_count(value: str | None) -> int:
    """What the client's SDK says, if it is a number that makes sense."""
    is_count = value is not None and value.isdecimal() and len(value) <= RETRY_COUNT_DIGITS
    return int(value) if value is not None and is_count else 0
