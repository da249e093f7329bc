"""Meter events to a server that behaves as Stripe's endpoint: each counted once, whatever happens on the way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from gateway.db import Database
from gateway.exports.delivery import Answer, MeterDelivery, judge
from gateway.exports.repository import deliveries, runs
from gateway.exports.stripe import MeterLine, identifier
from gateway.obs.metrics import Metrics
from tests.fakes.clock import ManualClock
from tests.fakes.stripe import KEY, FakeStripe
from tests.gateway.exports.ledger import DAY, Ledger, spec

NOW = DAY + timedelta(days=1, hours=3)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
async def stripe(clock: ManualClock) -> AsyncIterator[FakeStripe]:
    async with FakeStripe(lambda: int(clock.now().timestamp())) as server:
        yield server


class Sender:
    """Events in the table, and a delivery whose retries come due when the test says so."""

    def __init__(self, database: Database, ledger: Ledger, delivery: MeterDelivery) -> None:
        self._database = database
        self._books = ledger.books
        self._delivery = delivery

    async def queue(self, *amounts: int, customer: str = "cus_a", first: datetime = DAY) -> None:
        lines = []
        for number, amount in enumerate(amounts):
            hour = first + timedelta(hours=number)
            tenant = f"proj_{customer}"
            lines.append(
                MeterLine("tollway_nanousd", identifier(tenant, hour), hour, customer, tenant, amount)
            )
        async with self._database.write() as session:
            await runs.request(session, f"run_{customer}_{len(amounts)}", spec("stripe"), "here", "test")
            await deliveries.enqueue(session, f"run_{customer}_{len(amounts)}", lines)

    async def send(self) -> None:
        await self._books.run("UPDATE meter_event SET next_attempt_at = now() WHERE status = 'pending'")
        await self._delivery.run_due()

    async def rows(self) -> list[Any]:
        return await self._books.rows(
            "SELECT status, attempts, last_error, delivered_at IS NOT NULL, next_attempt_at - now()"
            " FROM meter_event ORDER BY identifier"
        )

    async def statuses(self) -> list[str]:
        return [row[0] for row in await self.rows()]


@pytest.fixture
def sender(database: Database, ledger: Ledger, stripe: FakeStripe, clock: ManualClock) -> Sender:
    return Sender(database, ledger, MeterDelivery(database, clock, Metrics(), stripe.url, KEY))


async def test_every_event_is_sent_once_and_recorded(sender: Sender, stripe: FakeStripe) -> None:
    for customer in ("cus_a", "cus_b", "cus_c"):
        await sender.queue(5, 7, -2, customer=customer)
    await sender.send()
    await sender.send()
    assert stripe.totals == {"cus_a": 10, "cus_b": 10, "cus_c": 10}
    assert stripe.calls == 9
    assert stripe.most_at_once > 1
    assert [(row[0], row[1], row[3]) for row in await sender.rows()] == [("delivered", 1, True)] * 9


async def test_queueing_again_changes_nothing(sender: Sender, stripe: FakeStripe, database: Database) -> None:
    await sender.queue(5)
    await sender.send()
    line = MeterLine("tollway_nanousd", identifier("proj_cus_a", DAY), DAY, "cus_a", "proj_cus_a", 5)
    async with database.write() as session:
        await deliveries.enqueue(session, "run_cus_a_1", [line, line])
    await sender.send()
    assert (stripe.calls, stripe.totals) == (1, {"cus_a": 5})


async def test_trouble_is_tried_again_and_counts_once(sender: Sender, stripe: FakeStripe) -> None:
    """The customer's other events wait, so that they arrive in order. None: no answer after the event was taken."""
    in_use = {"error": {"code": "idempotency_key_in_use", "message": "x"}}
    troubles = {
        "cus_1": lambda: web.Response(status=429, headers={"Retry-After": "90"}),
        "cus_2": lambda: web.Response(status=500, text="oh"),
        "cus_3": lambda: web.Response(status=503),
        "cus_4": lambda: web.json_response(in_use, status=409),
        "cus_5": lambda: None,
    }
    for number, (customer, trouble) in enumerate(troubles.items(), 1):
        await sender.queue(5, 7, customer=customer)
        stripe.trouble = [trouble(), trouble()]
        await sender.send()
        assert (await sender.statuses())[-2:] == ["pending", "pending"]
        while "pending" in await sender.statuses():
            await sender.send()
        assert stripe.totals[customer] == 12
        assert await sender.statuses() == ["delivered"] * 2 * number


async def test_a_duplicate_is_a_delivery(sender: Sender, stripe: FakeStripe) -> None:
    """Taken before, and the idempotency key is no longer known: Stripe says that the identifier exists."""
    await sender.queue(5)
    stripe.trouble = [None]
    await sender.send()
    stripe._answers.clear()
    await sender.send()
    (row,) = await sender.rows()
    assert (row[0], row[3]) == ("delivered", True)
    assert "already exists" in row[2]
    assert stripe.totals == {"cus_a": 5}


async def test_a_worker_that_dies_before_its_mark_counts_nothing_twice(
    sender: Sender, stripe: FakeStripe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent, and killed before that is recorded: the lease runs out, and the same event is sent again."""
    await sender.queue(5)
    with monkeypatch.context() as dying:
        dying.setattr(deliveries, "record", _dies)
        with pytest.raises(ExceptionGroup):
            await sender.send()
    assert (await sender.statuses(), stripe.totals) == (["pending"], {"cus_a": 5})
    await sender.send()
    assert (await sender.statuses(), stripe.totals) == (["delivered"], {"cus_a": 5})


async def _dies(*arguments: object) -> None:
    raise ConnectionError("killed here")


async def test_without_an_answer_for_a_day_nobody_guesses(
    sender: Sender, stripe: FakeStripe, clock: ManualClock
) -> None:
    """After 24 hours Stripe would count it again."""
    await sender.queue(5)
    stripe.trouble = [None]
    await sender.send()
    stripe.forgets = True
    clock.advance(23 * 3600 + 60)
    await sender.send()
    assert await sender.statuses() == ["uncertain"]
    assert stripe.totals == {"cus_a": 5}


async def test_what_was_surely_not_taken_is_tried_for_as_long_as_stripe_takes_it(
    sender: Sender, stripe: FakeStripe, clock: ManualClock
) -> None:
    await sender.queue(5, 7)
    stripe.trouble = [web.Response(status=429)]
    await sender.send()
    clock.advance(30 * 86_400)
    stripe.trouble = [web.Response(status=429)]
    await sender.send()
    assert await sender.statuses() == ["pending"] * 2
    clock.advance(4 * 86_400)
    await sender.send()
    assert await sender.statuses() == ["expired", "expired"]
    assert stripe.totals == {}


async def test_a_refusal_is_recorded_and_holds_up_nobody(sender: Sender, stripe: FakeStripe) -> None:
    await sender.queue(5, 6, customer="unknown")
    await sender.queue(1, customer="cus_b")
    await sender.send()
    rows = await sender.rows()
    assert [row[0] for row in rows] == ["delivered", "refused", "refused"]
    assert rows[1][2] == "400 No such customer: 'unknown'"


async def test_a_wrong_key_is_not_the_events_fault(
    database: Database, ledger: Ledger, stripe: FakeStripe, clock: ManualClock
) -> None:
    wrong = MeterDelivery(database, clock, Metrics(), stripe.url, "sk_wrong")
    sender = Sender(database, ledger, wrong)
    await sender.queue(5)
    await sender.send()
    (row,) = await sender.rows()
    assert (row[0], row[2]) == ("pending", "401 Invalid API Key provided")


async def test_nobody_there_is_tried_again(database: Database, ledger: Ledger, clock: ManualClock) -> None:
    sender = Sender(database, ledger, MeterDelivery(database, clock, Metrics(), "http://127.0.0.1:1", KEY))
    await sender.queue(5)
    await sender.send()
    (row,) = await sender.rows()
    assert row[0] == "pending"
    assert "ClientConnectorError" in row[2]
    assert await ledger.books.value("SELECT unanswered_at FROM meter_event") is None


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, b"{}", Answer("delivered")),
        (400, b"no json", Answer("refused", "400 no json")),
        (400, b"[]", Answer("refused", "400 []")),
        (302, b"", Answer("refused", "302 ")),
        (502, b"", Answer("pending", "502 ", is_answered=False)),
        (429, b"", Answer("pending", "429 ", timedelta(seconds=7))),
    ],
)
def test_answers_are_judged(status: int, body: bytes, expected: Answer) -> None:
    assert judge(status, {"Retry-After": "7"} if status == 429 else {}, body) == expected


def test_times_are_utc() -> None:
    line = MeterLine.read(
        b'{"event_name":"e","identifier":"i","timestamp":0,"payload":'
        b'{"stripe_customer_id":"c","value":"-3","project_id":"p"}}'
    )
    assert line.happened_at == datetime(1970, 1, 1, tzinfo=UTC)
    assert line.fields()["payload[value]"] == "-3"
