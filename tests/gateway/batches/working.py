"""What running a batch needs from others, in the test's hands: the request path, the ledger's holds, the keys."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import orjson

from gateway.batches.files import FileStore
from gateway.batches.lines import ENDPOINTS
from gateway.batches.parts import Parts, Terms
from gateway.batches.repository.running import claim
from gateway.batches.service import WINDOW, BatchService, Wanted
from gateway.batches.types import BatchRow, Lease
from gateway.blobs import DirectoryBlobs
from gateway.clock import SystemClock
from gateway.db import Database
from gateway.errors import GatewayError
from gateway.exchange import Caller, Sink
from gateway.ids import IdSource, KeyId, RequestId, TenantId
from gateway.obs.metrics import Metrics
from gateway.tenancy.principal import MODEL_SCOPE, Principal
from gateway.wire import GenerationRequest
from tests.gateway.batches.conftest import TENANT, pieces

URL = "/v1/embeddings"
PRINCIPAL = Principal(TENANT, KeyId("key_1"), frozenset({MODEL_SCOPE}))


class Asked:
    """The request path: answers with what was asked, unless there is an error to raise first."""

    def __init__(self) -> None:
        self.errors: list[tuple[GatewayError, bool]] = []
        self.seen: list[tuple[RequestId, Caller, GenerationRequest]] = []
        self.at_once = self.most_at_once = 0
        self.delay_s = 0.0
        self.gate = asyncio.Event()
        self.gate.set()

    def fail(self, error: GatewayError, *, settled: bool = False, times: int = 1) -> None:
        self.errors += [(error, settled)] * times

    async def run(
        self, caller: Caller, request: GenerationRequest, request_id: RequestId, sink: Sink
    ) -> None:
        self.seen.append((request_id, caller, request))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.delay_s)
            await self.gate.wait()
            if self.errors:
                error, error.is_settled = self.errors.pop(0)
                raise error
            usage = {"prompt_tokens": 2, "total_tokens": 2}
            await sink.whole({}, orjson.dumps({"input": request.fields["input"], "usage": usage}))
        finally:
            self.at_once -= 1


class Others:
    """The ledger's holds and the key directory."""

    def __init__(self) -> None:
        self.given_back: list[RequestId] = []
        self.principal: Principal | None = PRINCIPAL

    async def give_back(self, request_ids: Sequence[RequestId]) -> None:
        self.given_back += request_ids

    async def standing_for(self, tenant_id: TenantId, key_id: KeyId) -> Principal | None:
        assert (tenant_id, key_id) == (PRINCIPAL.tenant_id, PRINCIPAL.key_id)
        return self.principal


class Works:
    """A batch service, its parts, and what they were asked."""

    def __init__(self, database: Database, blobs: DirectoryBlobs, terms: Terms) -> None:
        clock = SystemClock()
        self.asked, self.others = Asked(), Others()
        self.files = FileStore(database, blobs, clock, IdSource(clock))
        self.service = BatchService(database, clock, IdSource(clock))
        self.parts = Parts(
            database=database,
            blobs=blobs,
            requests=self.asked,
            holds=self.others,
            standing=self.others,
            clock=clock,
            metrics=Metrics(),
            terms=terms,
        )

    async def begin(self, *inputs: str) -> BatchRow:
        lines = [
            {"custom_id": f"id-{n}", "method": "POST", "url": URL, "body": {"model": "m", "input": text}}
            for n, text in enumerate(inputs)
        ]
        assert URL in ENDPOINTS
        content = b"".join(orjson.dumps(line) + b"\n" for line in lines)
        file = await self.files.finish(TENANT, await self.files.receive(TENANT, "f", pieces(content)))
        return await self.service.create(PRINCIPAL, Wanted(URL, file.id, WINDOW, None, None))

    async def claim(self, owner: str = "run_1") -> Lease:
        async with self.parts.database.transaction() as connection:
            lease = await claim(connection, owner, self.parts.terms.lease_s)
        assert lease is not None
        return lease

    async def content(self, file_id: str | None) -> list[str]:
        """The `custom_id`s of a result file, in its order."""
        if file_id is None:
            return []
        row = await self.files.get(TENANT, file_id)
        raw = b"".join([piece async for piece in self.files.content(row)])
        return [orjson.loads(line)["custom_id"] for line in raw.splitlines()]
