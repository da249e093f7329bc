"""The worker's own process, killed with -9 between a delivery and its mark: the alert arrives, under one id."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from tests.gateway.alerts.conftest import Bench
from tests.gateway.alerts.mailserver import Mailbox, serve_mail

KILLS = 5
TIMEOUT_S = 180


async def start_worker(database_url: str, port: int, failpoints: Path) -> asyncio.subprocess.Process:
    environment = {
        **os.environ,
        "DATABASE_URL": database_url,
        "TOLLWAY_MAIL__HOST": "127.0.0.1",
        "TOLLWAY_MAIL__PORT": str(port),
        "TOLLWAY_MAIL__TLS": "none",
        "TOLLWAY_MAIL__TIMEOUT_S": "0.25",  # a lease of two seconds
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
            (tmp_path / "delivery.sent").write_text("kill")
            victim = await start_worker(database_url, port, tmp_path)
            assert await victim.wait() == -signal.SIGKILL
            assert len(mailbox.taken) == kill
            assert await bench.books.value("SELECT count(*) FROM delivery WHERE delivered_at IS NULL") == 1
        survivor = await start_worker(database_url, port, tmp_path)
        while not await bench.books.value(  # noqa: ASYNC110  (the condition is in the database)
            "SELECT count(*) FROM delivery WHERE delivered_at IS NOT NULL"
        ):
            await asyncio.sleep(0.1)
        survivor.send_signal(signal.SIGTERM)
        await survivor.wait()
    assert len({mail["Message-ID"] for _, mail in mailbox.taken}) == 1
    assert len(mailbox.taken) == KILLS + 1
    assert await bench.books.count("alert_record") == 1
