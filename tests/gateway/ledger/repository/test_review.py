"""The review list: each subject once, resolved by evidence or by a person."""

from gateway.ledger.repository.review import (
    ReviewNote,
    list_unknown_requests,
    open_items,
    open_items_by_kind,
    resolve_item,
    resolve_settled,
    write_notes,
)
from tests.gateway.books import Books
from tests.instants import just_now

NOW = just_now()


async def _journalled(books: Books, request_id: str, age_s: int) -> None:
    await books.run(
        """INSERT INTO journal_attempt (request_id, attempt, replica_id, epoch, has_ended, prompt_tokens,
            cached_tokens, completion_tokens, overrun_tokens, at, read_at)
        VALUES (:id, 0, 'r', 'e', true, 10, 0, 5, 0, now(), now() - make_interval(secs => :age_s))""",
        id=request_id,
        age_s=age_s,
    )


async def test_a_subject_is_listed_once(books: Books) -> None:
    note = ReviewNote("unreadable_record", "r:1", replica_id="r", details={"record": "?"})
    async with books.database.transaction() as connection:
        await write_notes(connection, [])
        await write_notes(connection, [note, ReviewNote("engine_gone", "req_1", request_id="req_1")])
        await write_notes(connection, [note])
        assert await open_items_by_kind(connection) == {"unreadable_record": 1, "engine_gone": 1}
        first, second = await open_items(connection, 0, 10)
        assert await open_items(connection, first.id, 10) == [second]
        assert {one.subject: one.details for one in (first, second)} == {"r:1": {"record": "?"}, "req_1": {}}


async def test_a_person_resolves_an_item_once(books: Books) -> None:
    async with books.database.transaction() as connection:
        await write_notes(connection, [ReviewNote("unreadable_record", "r:1")])
        (item,) = await open_items(connection, 0, 10)
        assert await resolve_item(connection, item.id, "looked at")
        assert not await resolve_item(connection, item.id, "again")
        assert await open_items(connection, 0, 10) == []
        await write_notes(connection, [ReviewNote("unreadable_record", "r:1")])
        assert await open_items(connection, 0, 10) == [], "it stays resolved"


async def test_only_requests_that_the_ledger_never_heard_of_are_listed_and_only_late(books: Books) -> None:
    await _journalled(books, "req_old", 7200)
    await _journalled(books, "req_new", 60)
    await _journalled(books, "req_known", 7200)
    await _settled(books, "req_known")
    async with books.database.transaction() as connection:
        assert await list_unknown_requests(connection, 3600, 10) == 1
        assert await list_unknown_requests(connection, 3600, 10) == 0
        (item,) = await open_items(connection, 0, 10)
    assert (item.request_id, item.details["completion_tokens"]) == ("req_old", 5)


async def test_what_is_settled_after_all_leaves_the_list(books: Books) -> None:
    await _journalled(books, "req_1", 7200)
    async with books.database.transaction() as connection:
        await list_unknown_requests(connection, 3600, 10)
    await _settled(books, "req_1")
    async with books.database.transaction() as connection:
        assert await resolve_settled(connection) == 1
        assert await open_items_by_kind(connection) == {}


async def _settled(books: Books, request_id: str) -> None:
    await books.run(
        "INSERT INTO settled_request (request_id, tenant_id, event_id, occurred_at, is_provisional)"
        " VALUES (:id, 'proj_a', gen_random_uuid(), :at, false)",
        id=request_id,
        at=NOW,
    )
