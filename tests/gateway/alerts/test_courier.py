"""The courier: every target once at least, with one id, on a schedule, whoever dies in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from gateway.alerts.channel import NotDelivered, Receipt, Undeliverable
from gateway.alerts.courier import Courier
from gateway.alerts.types import Message, Record, Target
from gateway.clock import SystemClock
from gateway.db import WriteConnection
from gateway.events import Event, Mail, announce
from gateway.ids import IdSource
from gateway.obs.metrics import Metrics
from tests.gateway.alerts.conftest import DUE_S, Bench

NOW = datetime(2026, 11, 20, tzinfo=UTC)


class Script:
    """The far side: answers each message as it is told to, and remembers them."""

    in_flight_max = 8
    per_target_max = 8

    def __init__(self, name: str = "email", *answers: Exception | None, lease_s: float = 60.0) -> None:
        self.name = name
        self.lease_s = lease_s
        self.over: list[bool] = []
        self.answers = list(answers)
        self.seen: list[Message] = []

    async def targets(self, connection: WriteConnection, record: Record) -> Sequence[Target]:
        return [Target(to, {"to": to}) for to in (record.mail.recipients if record.mail else ())]

    async def send(self, message: Message) -> Receipt:
        self.seen.append(message)
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        return Receipt(200, "taken")

    async def failed(
        self, connection: WriteConnection, message: Message, error: NotDelivered, *, is_over: bool
    ) -> None:
        self.over.append(is_over)


def courier(bench: Bench, *channels: Script) -> Courier:
    draw: Callable[[int], int] = lambda bound: 0  # noqa: E731  (no jitter)
    return Courier(
        bench.database, channels, clock=SystemClock(), ids=IdSource(), draw=draw, metrics=Metrics()
    )


async def tell(bench: Bench, *names: str, to: tuple[str, ...] = ("a@x.org",)) -> None:
    async with bench.database.transaction() as connection:
        mail = Mail(to) if to else None
        events = [Event("budget.exhausted", "proj_a", name, {"n": name}, NOW, mail) for name in names]
        await announce(connection, events)


async def rows(bench: Bench) -> list[tuple[Any, ...]]:
    """(record, target, attempts, seconds from the last attempt until due, is delivered, last error)"""
    found = await bench.books.rows(
        f"SELECT r.payload ->> 'n', target_key, attempts, {DUE_S},"
        " delivered_at IS NOT NULL, last_error FROM delivery d JOIN alert_record r ON r.id = record_id ORDER BY 1, 2"
    )
    return [tuple(row) for row in found]


async def make_due(bench: Bench) -> None:
    await bench.books.run("UPDATE delivery SET next_attempt_at = now() WHERE next_attempt_at IS NOT NULL")


async def test_each_target_of_each_record_gets_it_once(bench: Bench) -> None:
    far = Script()
    await tell(bench, "r1", to=("a@x.org", "b@x.org"))
    await tell(bench, "r2", to=())
    assert await courier(bench, far).run_once() == 2
    assert await courier(bench, far).run_once() == 0
    assert [(message.record.payload["n"], message.target.key) for message in far.seen] == [
        ("r1", "a@x.org"),
        ("r1", "b@x.org"),
    ]
    assert far.seen[0].record.payload == {"n": "r1"}
    assert await rows(bench) == [("r1", name, 1, None, True, None) for name in ("a@x.org", "b@x.org")]
    assert await bench.books.count("outbox") == 0


async def test_a_failure_is_tried_again_with_the_same_id(bench: Bench) -> None:
    far = Script("email", NotDelivered("451 busy"), NotDelivered("timed out"))
    await tell(bench, "r1")
    carrier = courier(bench, far)
    for attempt, (due_s, error) in enumerate(((5, "451 busy"), (300, "timed out")), 1):
        assert await carrier.run_once() == 1
        [(*_, attempts, seconds, is_delivered, last)] = await rows(bench)
        assert (attempts, is_delivered, last) == (attempt, False, error)
        assert seconds == due_s
        assert await carrier.run_once() == 0, "not before it is due"
        await make_due(bench)
    assert await carrier.run_once() == 1
    assert await rows(bench) == [("r1", "a@x.org", 3, None, True, None)]
    assert len({message.id for message in far.seen}) == 1
    assert [message.attempt for message in far.seen] == [1, 2, 3]


async def test_a_target_may_ask_for_more_time(bench: Bench) -> None:
    await tell(bench, "r1")
    await courier(bench, Script("email", NotDelivered("429 slow down", retry_after_s=60.0))).run_once()
    [(*_, seconds, _, last)] = await rows(bench)
    assert (seconds, last) == (60, "429 slow down")


async def test_it_ends_when_the_target_refuses_or_the_schedule_does(bench: Bench) -> None:
    await tell(bench, "r1")
    assert await courier(bench, Script("email", Undeliverable("550 nobody"))).run_once() == 1
    assert await rows(bench) == [("r1", "a@x.org", 1, None, False, "550 nobody")]
    await tell(bench, "r2")
    far = Script("email", *[NotDelivered("x" * 900)] * 20)
    for _ in range(12):
        await courier(bench, far).run_once()
        await make_due(bench)
    assert len(far.seen) == 10
    assert (await rows(bench))[1] == ("r2", "a@x.org", 10, None, False, "x" * 500)


async def test_a_channel_that_is_gone_fails_and_may_come_back(bench: Bench) -> None:
    await tell(bench, "r1")
    far = Script("email", NotDelivered("later"))
    await courier(bench, far).run_once()
    await make_due(bench)
    await courier(bench).run_once()
    assert (await rows(bench))[0][-1] == "no email channel is configured"
    await make_due(bench)
    await courier(bench, far).run_once()
    assert len(far.seen) == 2


async def test_a_second_channel_is_only_one_more_channel(bench: Bench) -> None:
    """What signed webhooks will be: a channel with targets of its own, on the same outbox and schedule."""
    mail, hook = Script(), Script("webhook", NotDelivered("503"))
    await tell(bench, "r1")
    await courier(bench, mail, hook).run_once()
    await make_due(bench)
    await courier(bench, mail, hook).run_once()
    assert (len(mail.seen), len(hook.seen)) == (1, 2)


async def test_several_couriers_share_the_work(bench: Bench) -> None:
    far = Script()
    await tell(bench, *(f"r{number:02}" for number in range(30)))
    carriers = [courier(bench, far) for _ in range(3)]
    await asyncio.gather(*(carrier.run_once() for carrier in carriers))
    while await carriers[0].run_once():
        pass
    assert sorted(message.record.payload["n"] for message in far.seen) == [
        f"r{number:02}" for number in range(30)
    ]


async def test_a_lease_that_ran_out_is_taken_over_and_its_late_failure_counts_no_more(bench: Bench) -> None:
    """The first sender hangs past its lease; the second delivers; then the first one fails."""
    stuck, far = asyncio.Event(), Script()

    class Hanging(Script):
        async def send(self, message: Message) -> Receipt:
            self.seen.append(message)
            await stuck.wait()
            raise NotDelivered("too late")

    hanging = Hanging(lease_s=0.0)
    await tell(bench, "r1")
    first = asyncio.create_task(courier(bench, hanging).run_once())
    async with asyncio.timeout(60):
        while not hanging.seen:  # noqa: ASYNC110  (the far side has no event)
            await asyncio.sleep(0.01)
    assert await courier(bench, far).run_once() == 1
    stuck.set()
    await first
    assert far.seen[0].id == hanging.seen[0].id
    assert await rows(bench) == [("r1", "a@x.org", 2, None, True, None)]
