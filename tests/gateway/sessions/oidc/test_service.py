"""A way to the provider ends after ten minutes, and its secret opens on this installation alone."""

from __future__ import annotations

import os
from urllib.parse import parse_qs, urlsplit

import pytest

from gateway.sessions.oidc import OidcService, ProviderConfig
from gateway.sessions.oidc.service import WAY_LASTS
from gateway.sessions.oidc.types import ProviderFailed
from tests.fakes.provider import CLIENT, SECRET, FakeProvider
from tests.gateway.sessions.conftest import HERE, OPERATOR, Desk, desk, ring

__all__ = ["desk"]


def service_of(desk: Desk) -> OidcService:
    return OidcService(
        desk.database, desk.people, desk.sessions, desk.audit, desk.ring, desk.clock, os.urandom
    )


async def test_a_way_that_takes_too_long_leads_nowhere(desk: Desk) -> None:
    oidc = service_of(desk)
    async with FakeProvider("https://c.example/v1/organization/sessions/oidc/callback") as provider:
        config = ProviderConfig(provider.issuer, CLIENT, "P", "https://c.example", SECRET)
        async with desk.database.write() as session:
            await oidc.put(session, OPERATOR, config, keeps_secret=False)
        assert await oidc.config() == config
        assert SECRET not in repr(config)
        way = await oidc.start("/console/")
        state = parse_qs(urlsplit(way.url).query)["state"][0]
        assert state not in way.cookie
        desk.clock.advance(WAY_LASTS.total_seconds())
        for cookie, code in ((way.cookie, "too_late"), ("", "bad_state"), ("%", "bad_state")):
            with pytest.raises(ProviderFailed) as failed:
                await oidc.finish("code", state, cookie, HERE)
            assert failed.value.code == code
        assert (await desk.log())[-3][3] == {"after": {"error_code": "oidc_too_late"}}
        stranger = Desk(desk.database, desk.clock, ring("x1"))
        found = await service_of(stranger).config()
        assert found is not None
        assert found.client_secret is None
