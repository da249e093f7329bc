"""Three real engines behind one gateway: killed, restarted and left alone under load, nobody gets a wrong answer.

`make fleet` goes on killing for two minutes.
"""

import asyncio
import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from engine.server.journal_reader import read_page
from tests.e2e.chaos.load import Record
from tests.e2e.fleet.load import Answer
from tests.e2e.fleet.run import Fleet, streams_of, wrong

SECONDS_VARIABLE = "TOLLWAY_TEST_FLEET_SECONDS"
SEED_VARIABLE = "TOLLWAY_TEST_FLEET_SEED"
KILLS = 2
LONG = 400

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def fleet_home() -> Iterator[Path]:
    """Others may enter it: Postgres, started by root, runs as another user."""
    with tempfile.TemporaryDirectory(prefix="tollway-fleet-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o711)
        yield Path(directory).resolve()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(fleet_home: Path, tiny_model: Path) -> AsyncIterator[Fleet]:
    seed = os.environ.get(SEED_VARIABLE) or secrets.token_hex(4)
    print(f"seed {seed}")
    fleet = Fleet(fleet_home, tiny_model, seed)
    try:
        await fleet.start()
        yield fleet
    finally:
        await fleet.cluster.destroy()


async def test_who_leaves_is_no_work_for_the_engine_any_more(fleet: Fleet) -> None:
    """Duty G35: through gateway and engine: a caller that leaves ends its request, and its pages come back."""
    before = [status["kv_usage"] for status in await fleet.running()]
    ask = min(streams_of(fleet.asks), key=lambda one: len(str(one.body)))  # LONG must fit behind its prompt
    record = Record("fleet/left", fleet.plan, is_stream=True, max_tokens=LONG, end="cut")
    fleet.callers.answers.append(Answer(ask, record))
    body = ask.body | {"max_tokens": LONG, "user": record.tag}
    headers = {"authorization": f"Bearer {fleet.plan.tenant.key}"}
    async with aiohttp.ClientSession() as client:
        async with client.post(fleet.cluster.gateway_urls[0] + ask.path, json=body, headers=headers) as reply:
            assert reply.status == 200, await reply.text()
            record.status, record.request_id = reply.status, reply.headers["x-request-id"]
            await reply.content.readline()
            reply.close()
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(60):
            while any(status["running"] for status in await fleet.running()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        print(f"gone after {asyncio.get_running_loop().time() - began:.3f} s")
    assert [status["kv_usage"] for status in await fleet.running()] == before

    def ends() -> list[Any]:
        pages = [read_page(fleet.cluster.journal_dir(n), "", 10_000) for n in range(3)]
        found = [one for page in pages for one in page.records]
        return [one for one in found if one.request_id == record.request_id and one.kind == "end"]

    async with asyncio.timeout(60):  # it is written a moment after the pages are free
        while not ends():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    [end] = ends()
    assert end.finish_reason == "abort"
    assert 0 < (end.completion_tokens or 0) < LONG


async def test_a_rolling_restart_fails_nobody(fleet: Fleet) -> None:
    """Duty H42: every engine drained, ended and started again under constant load: none failed, none truncated."""
    answers = await fleet.rolling()
    assert [len(engine.deaths) for engine in fleet.cluster.engines] == [1, 1, 1]
    assert [code for engine in fleet.cluster.engines for code in engine.deaths] == [0, 0, 0]
    assert len(answers) > 20
    assert not wrong(answers)


async def test_a_killed_replica_costs_nobody_an_answer(fleet: Fleet) -> None:
    """Duty G37: kill -9 under load: every request ends before its timeout, with the tokens of an undisturbed run, and is
    billed once."""
    seconds = float(os.environ.get(SECONDS_VARIABLE, "0"))
    answers = await fleet.killing(KILLS, seconds)
    ends = {
        end: sum(answer.record.end == end for answer in answers) for end in ("complete", "failed", "lost")
    }
    print(f"{len(fleet.kills)} kills, {len(answers)} requests: {ends}")
    assert not wrong(answers)
    [continued] = await fleet.cluster.sql(
        "SELECT count(*) AS n FROM journal_attempt WHERE resumed_from IS NOT NULL"
    )
    print(f"{continued['n']} streams went on elsewhere")
    problems = await fleet.audit()
    assert not problems, "\n".join(problems[:40])
