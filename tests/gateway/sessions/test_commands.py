"""A password by whoever can reach the database."""

from __future__ import annotations

import pytest

from gateway.errors import Conflict, InvalidValue, NotFound
from gateway.sessions.commands import put_password
from gateway.tenancy.people.types import User
from tests.gateway.sessions.conftest import OPERATOR, PASSWORD, Desk


async def nameless(desk: Desk) -> User:
    """As the first owner is, whom nobody has asked for an address."""
    async with desk.database.write() as session:
        return await desk.people.create_user(session, OPERATOR, None, "owner", "owner")


async def test_by_address_or_id_and_with_an_address_for_who_has_none(desk: Desk) -> None:
    user, owner = await desk.user(password=None), await nameless(desk)
    put = (desk.database, desk.ring, desk.clock)
    assert await put_password(*put, "ANN@example.com", PASSWORD) == user.id
    assert (await desk.login()).standing.user.id == user.id
    with pytest.raises(Conflict, match="no address"):
        await put_password(*put, owner.id, PASSWORD)
    with pytest.raises(Conflict, match="already"):
        await put_password(*put, owner.id, PASSWORD, "Ann@example.com")
    assert await put_password(*put, owner.id, PASSWORD, "Owner@example.com") == owner.id
    assert (await desk.login("owner@example.com")).standing.user.id == owner.id
    with pytest.raises(NotFound):
        await put_password(*put, "nobody@example.com", PASSWORD)
    with pytest.raises(InvalidValue):
        await put_password(*put, owner.id, "short")
    assert PASSWORD not in str(await desk.log())
