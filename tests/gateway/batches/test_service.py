"""What may be asked of batches."""

from __future__ import annotations

import pytest

from gateway.batches import service as module
from gateway.batches.parts import Terms
from gateway.batches.service import Wanted
from gateway.blobs import DirectoryBlobs
from gateway.db import Database
from gateway.errors import Conflict, InvalidRequest, InvalidValue, NotFound
from gateway.ids import TenantId
from tests.gateway.batches.conftest import TENANT
from tests.gateway.batches.working import PRINCIPAL, URL, Works


@pytest.fixture
def works(database: Database, blobs: DirectoryBlobs) -> Works:
    return Works(database, blobs, Terms())


async def test_a_project_has_so_many_at_once(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ACTIVE_MAX", 2)
    first = await works.begin("a")
    await works.begin("a")
    with pytest.raises(InvalidRequest, match="have not ended"):
        await works.begin("a")
    assert first.state == "validating"


async def test_the_input_is_a_file_of_the_tenants_for_batches(works: Works) -> None:
    batch = await works.begin("a")
    good = Wanted(URL, batch.input_file_id, "24h", None, None)
    for wanted, param in (
        (Wanted("/v1/models", batch.input_file_id, "24h", None, None), "endpoint"),
        (Wanted(URL, batch.input_file_id, "25h", None, None), "completion_window"),
        (Wanted(URL, "file-0", "24h", None, None), "input_file_id"),
    ):
        with pytest.raises(InvalidValue) as caught:
            await works.service.create(PRINCIPAL, wanted)
        assert caught.value.param == param
    async with works.parts.database.transaction() as connection:
        await connection.exec_driver_sql("UPDATE stored_file SET purpose = 'batch_output'")
    with pytest.raises(InvalidValue, match="purpose"):
        await works.service.create(PRINCIPAL, good)


async def test_cancelling_twice_is_cancelling_once(works: Works) -> None:
    batch = await works.begin("a")
    first = await works.service.cancel(TENANT, batch.id)
    assert await works.service.cancel(TENANT, batch.id) == first
    with pytest.raises(NotFound):
        await works.service.cancel(TenantId("proj_b"), batch.id)
    async with works.parts.database.transaction() as connection:
        await connection.exec_driver_sql("UPDATE batch SET state = 'finalizing'")
    with pytest.raises(Conflict):
        await works.service.cancel(TENANT, batch.id)
