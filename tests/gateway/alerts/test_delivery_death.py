"""The worker's own process, killed with -9 around a delivery: what was told arrives, each under one id."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from pathlib import Path

from standardwebhooks import Webhook

from gateway.alerts.webhooks.channel import WebhookChannel
from gateway.alerts.webhooks.signing import Secrets, new_secret
from gateway.alerts.webhooks.vault import Vault
from gateway.events import Event, announce
from gateway.keyring import Keyring, Keys
from tests.gateway.alerts.conftest import NOW, Bench
from tests.gateway.alerts.mailserver import Mailbox, serve_mail
from tests.gateway.alerts.webhooks.receiver import Receiver, serve_receiver
from tests.patience import PATIENT

KILLS = 5
EVENTS, HOOK_KILLS = 20, 2
TIMEOUT_S = 180
PEPPER = "pepper-of-the-tests-0123456789"


async def start_worker(database_url: str, failpoints: Path, port: int = 9) -> asyncio.subprocess.Process:
    environment = {
        **os.environ,
        **PATIENT,
        "DATABASE_URL": database_url,
        "TOLLWAY_SECURITY__KEY_PEPPER": PEPPER,
        "TOLLWAY_SECURITY__WEBHOOK_ALLOWED_CIDRS": '["127.0.0.1/32"]',
        "TOLLWAY_MAIL__HOST": "127.0.0.1",
        "TOLLWAY_MAIL__PORT": str(port),
        "TOLLWAY_MAIL__TLS": "none",
        "TOLLWAY_MAIL__TIMEOUT_S": "60",
        "TOLLWAY_TEST_MODE": "failpoints",
        "TOLLWAY_TEST_FAILPOINTS": str(failpoints),
    }
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", "worker", env=environment, stderr=asyncio.subprocess.DEVNULL
    )


async def test_a_worker_killed_after_the_delivery_delivers_again_with_the_same_id(
    bench: Bench, database_url: str, tmp_path: Path
) -> None:
    """Duty I46: at least once, with a stable message id, whatever dies."""
    budget = await bench.books.add_budget(10, period="prepaid")
    await bench.alert("alert_a", budget_id=budget, threshold_percent=50)
    await bench.spend(budget, 9, "prepaid")
    mailbox = Mailbox()
    async with serve_mail(mailbox) as port, asyncio.timeout(TIMEOUT_S):
        for kill in range(1, KILLS + 1):
            await lapse(bench)
            (tmp_path / "delivery.sent").write_text("kill")
            victim = await start_worker(database_url, tmp_path, port)
            assert await victim.wait() == -signal.SIGKILL
            assert len(mailbox.taken) == kill
            assert await bench.books.value("SELECT count(*) FROM delivery WHERE delivered_at IS NULL") == 1
        await lapse(bench)
        survivor = await start_worker(database_url, tmp_path, port)
        while not await bench.books.value(  # noqa: ASYNC110  (the condition is in the database)
            "SELECT count(*) FROM delivery WHERE delivered_at IS NOT NULL"
        ):
            await asyncio.sleep(0.1)
        survivor.send_signal(signal.SIGTERM)
        await survivor.wait()
    assert len({mail["Message-ID"] for _, mail in mailbox.taken}) == 1
    assert len(mailbox.taken) == KILLS + 1
    assert await bench.books.count("alert_record") == 1


async def test_webhooks_are_neither_lost_nor_doubled_by_kills(
    bench: Bench, database_url: str, tmp_path: Path
) -> None:
    """Duty I46: workers are killed before a message, with messages in flight, and after one was taken: each event is
    taken, under one webhook-id, and again only where a worker died between the answer and its mark."""
    vault = Vault(Keyring(Keys({"p1": PEPPER.encode()})), os.urandom)
    receiver = Receiver(gate=asyncio.Event())
    async with serve_receiver(receiver), asyncio.timeout(TIMEOUT_S):
        secret = await add_endpoint(bench, vault, receiver.url)
        ids = [await tell(bench, number) for number in range(EVENTS)]
        victim = await start_worker(database_url, tmp_path)
        while not receiver.taken:  # noqa: ASYNC110  (the far side)
            await asyncio.sleep(0.05)
        victim.kill()  # with messages in flight that no answer has come to
        await victim.wait()
        assert receiver.gate is not None
        receiver.gate.set()
        for kill in range(HOOK_KILLS):
            await lapse(bench)
            (tmp_path / "delivery.sent").write_text("kill")
            victim = await start_worker(database_url, tmp_path)
            assert await victim.wait() == -signal.SIGKILL, kill
        await lapse(bench)
        survivor = await start_worker(database_url, tmp_path)
        while await bench.books.value(  # noqa: ASYNC110  (the condition is in the database)
            "SELECT count(*) < :wanted OR bool_or(delivered_at IS NULL) FROM delivery", wanted=EVENTS
        ):
            await asyncio.sleep(0.1)
        survivor.send_signal(signal.SIGTERM)
        await survivor.wait()
    taken = Counter(one.id for one in receiver.taken)
    events = {one.id: Webhook(secret).verify(one.body, one.headers)["id"] for one in receiver.taken}
    assert sorted(events.values()) == sorted(ids), "each event, under one id of its own"
    # A kill doubles at most what was in flight then: so many messages of one endpoint at once.
    assert sum(taken.values()) - EVENTS <= (1 + HOOK_KILLS) * WebhookChannel.per_target_max


async def add_endpoint(bench: Bench, vault: Vault, url: str) -> str:
    secret = new_secret(os.urandom)
    await bench.books.run(
        "INSERT INTO webhook_endpoint (id, name, url, event_types, secrets_sealed, secret_hint)"
        " VALUES ('we_1', 'n', :url, '{ledger.drift}', :sealed, '')",
        url=url,
        sealed=vault.close("we_1", Secrets(secret)),
    )
    return secret


async def tell(bench: Bench, number: int) -> str:
    event = Event("ledger.drift", None, str(number), {"n": number}, NOW)
    async with bench.database.transaction() as connection:
        await announce(connection, [event])
    return event.id


async def lapse(bench: Bench) -> None:
    """Once the database has noticed that the worker is dead, its leases run out."""
    here = "application_name = 'tollway-deliveries' AND datname = current_database()"
    while await bench.books.value(f"SELECT count(*) FROM pg_stat_activity WHERE {here}"):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    await bench.books.run(
        "UPDATE delivery SET next_attempt_at = now() WHERE delivered_at IS NULL AND next_attempt_at IS NOT NULL"
    )
