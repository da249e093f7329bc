"""Notes as they are written: sums that only grow, and names that can be erased."""

from gateway.ledger.repository.notes import erase_user, write_pseudonyms, write_refusals
from tests.gateway.books import Books

ROW = {
    "bucket": "2026-11-29T12:00:00Z",
    "gateway_id": "gw-1",
    "instance_id": "run_1",
    "tenant_id": "proj_a",
    "key_id": "key_a",
    "served_model": "tiny",
    "reason": "rate_limit_exceeded",
}


async def test_an_older_sum_changes_nothing(books: Books) -> None:
    async with books.database.transaction() as connection:
        for requests in (3, 7, 5):
            await write_refusals(connection, [{**ROW, "requests": requests}])
    assert await books.value("SELECT requests FROM refusal_minute") == 7


async def test_a_person_is_erased_by_name_or_pseudonym_and_of_one_tenant_only(books: Books) -> None:
    await books.add_tenant("proj_b")
    async with books.database.transaction() as connection:
        users = [("proj_a", "r1", "alice"), ("proj_a", "r2", "bob"), ("proj_b", "r3", "alice")]
        await write_pseudonyms(connection, users)
        assert await erase_user(connection, "proj_a", "alice") == 1
        assert await erase_user(connection, "proj_a", "r2") == 1
        assert await erase_user(connection, "proj_a", "alice") == 0
    assert await books.value("SELECT tenant_id FROM user_pseudonym") == "proj_b"
