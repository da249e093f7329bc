"""The ledger is exact: every failpoint kills its process under load, and then journals, books and callers agree.

This is the short run, each failpoint at least once; `make chaos` is the long one. A failure prints its seed, with
which the same draws are made again (what the kills interrupt depends on the machine's timing all the same).
"""

import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.chaos.campaign import Campaign

SECONDS_VARIABLE = "TOLLWAY_TEST_CHAOS_SECONDS"
SEED_VARIABLE = "TOLLWAY_TEST_CHAOS_SEED"
ROUNDS_VARIABLE = "TOLLWAY_TEST_CHAOS_ROUNDS"


@pytest.fixture
def home() -> Iterator[Path]:
    """Others may enter it: Postgres, started by root, runs as another user."""
    with tempfile.TemporaryDirectory(prefix="tollway-chaos-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o711)
        yield Path(directory).resolve()


@pytest.mark.timeout(3600)
async def test_every_token_is_accounted_for_exactly_once(home: Path, tiny_model: Path) -> None:
    """Duty C18: SIGKILL anywhere: every delivered reply is settled, once, at the engine's own figure."""
    seed = os.environ.get(SEED_VARIABLE) or secrets.token_hex(4)
    rounds = int(os.environ.get(ROUNDS_VARIABLE, "1"))
    seconds = float(os.environ.get(SECONDS_VARIABLE, "0"))
    print(f"seed {seed}")
    campaign = Campaign(home, tiny_model, seed)
    problems = await campaign.run(rounds=rounds, seconds=seconds)
    print(campaign.table())
    assert not problems, f"seed {seed}\n" + "\n".join(problems[:40])
    missed = campaign.missed(rounds)
    assert not missed, f"seed {seed}: not hit {rounds} times: {missed}"
