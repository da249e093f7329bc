"""Exports through the admin API: asked for, made by a worker's job, downloaded, audited."""

from __future__ import annotations

import hashlib
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway.exports.destination import configured_store
from tests.gateway.http.admin.exporting import work
from tests.harness import Gateway

BODY = {"format": "csv", "start_date": "2026-01-10", "end_date": "2026-01-12"}


@pytest.fixture
def gateway_changes(tmp_path: Path) -> dict[str, Any]:
    return {"exports": {"destination": str(tmp_path / "exports")}}


async def test_from_asking_to_downloading(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    made = [
        await gateway.admin("POST", "/exports", {**BODY, "format": name})
        for name in ("csv", "parquet", "focus")
    ]
    one = await gateway.admin("POST", "/exports", {**BODY, "project_id": tenant.id})
    assert (one["status"], one["files"], one["project_id"]) == ("queued", None, tenant.id)
    await work(gateway)
    page = await gateway.admin("GET", "/exports?limit=2")
    rest = await gateway.admin("GET", f"/exports?limit=2&after={page['last_id']}")
    assert [row["id"] for row in page["data"] + rest["data"]] == [
        one["id"],
        *(row["id"] for row in reversed(made)),
    ]
    assert (page["has_more"], rest["has_more"]) == (True, False)
    assert [
        row["id"] for row in (await gateway.admin("GET", f"/exports?project_id={tenant.id}"))["data"]
    ] == [one["id"]]
    for row in page["data"] + rest["data"]:
        assert row["status"] == "succeeded"
        (file,) = (await gateway.admin("GET", f"/exports/{row['id']}"))["files"]
        content = await _download(gateway, row["id"], file["name"])
        assert hashlib.sha256(content).hexdigest() == file["sha256"]
    assert b'"files"' in await _download(gateway, one["id"], "manifest.json")
    audit = await gateway.sql(
        "SELECT action, count(*) FROM audit_log WHERE resource_kind = 'export' GROUP BY 1"
    )
    assert {row["action"]: row["count"] for row in audit} == {"export.created": 4, "export.downloaded": 5}


async def _download(gateway: Gateway, export_id: str, name: str) -> bytes:
    path = f"/v1/organization/exports/{export_id}/files/{name}"
    answer = await gateway.request("GET", path, key=gateway.admin_key)
    assert answer.status == 200
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    return await answer.read()


async def test_what_cannot_be_asked_for(gateway: Gateway) -> None:
    tomorrow = (await gateway.sql("SELECT (now() AT TIME ZONE 'UTC')::date + 1 AS day"))[0]["day"]
    for change, status, param in (
        ({"format": "xml"}, 400, "format"),
        ({"end_date": "2026-01-10"}, 400, "end_date"),
        ({"end_date": tomorrow.isoformat()}, 400, "end_date"),
        ({"project_id": "../other"}, 404, None),
        ({"destination": "/etc"}, 400, "destination"),
    ):
        answer = await gateway.admin("POST", "/exports", BODY | change, status)
        assert answer["error"]["param"] == param
    asked = await gateway.admin("POST", "/exports", BODY)
    await gateway.admin("GET", "/exports/none", status=404)
    for name in ("part-00001.csv", "manifest.json", "..%2f..%2fsecret"):
        await gateway.admin("GET", f"/exports/{asked['id']}/files/{name}", status=404)
    await work(gateway)
    await gateway.admin("GET", f"/exports/{asked['id']}/files/part-00002.csv", status=404)
    store = configured_store(gateway.settings.exports)
    assert store is not None
    (Path(store.address) / "csv/2026-01-10_2026-01-12/all/part-00001.csv").unlink()
    gone = await gateway.admin("GET", f"/exports/{asked['id']}/files/part-00001.csv", status=404)
    assert gone["error"]["message"] == "The file is no longer there."


async def test_the_last_closed_day_may_be_asked_for(gateway: Gateway) -> None:
    """Two hours and five minutes after its end, if no month has ended in between."""
    await gateway.sql(
        "INSERT INTO billing_period (period_key, starts_at, ends_at, requests, tokens, amount_nanousd)"
        " SELECT 'all', '2000-01-01Z', date_trunc('month', now(), 'UTC'), 0, 0, 0"
    )
    (row,) = await gateway.sql("SELECT (now() AT TIME ZONE 'UTC' - interval '125 minutes')::date AS open")
    open_day: date = row["open"]
    closed = {"start_date": (open_day - timedelta(days=1)).isoformat(), "end_date": open_day.isoformat()}
    assert (await gateway.admin("POST", "/exports", BODY | closed))["status"] == "queued"
    still = {"start_date": open_day.isoformat(), "end_date": (open_day + timedelta(days=1)).isoformat()}
    await gateway.admin("POST", "/exports", BODY | still, 400)


@pytest.mark.parametrize("gateway_changes", [{}])
async def test_without_a_destination_nothing_is_made(gateway: Gateway) -> None:
    refused = await gateway.admin("POST", "/exports", BODY, 409)
    assert "TOLLWAY_EXPORTS__DESTINATION" in refused["error"]["message"]
    assert (await gateway.admin("GET", "/exports"))["data"] == []
