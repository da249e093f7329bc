"""One gateway of the ledger's benchmark: a process of its own, on the event loop that gateways run on.

Started by `tests.bench.ledger`. Each line of its input is a time in seconds: so long its callers reserve and settle in
closed loops, then it answers with what they saw in one line. It ends when its input does. It does not know what is
compared with what.
"""

import argparse
import asyncio
import gc
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import uvloop

from gateway.clock import SystemClock
from gateway.ids import GatewayId, IdSource
from gateway.ledger import Ledger
from gateway.obs.metrics import Metrics
from gateway.settings import LedgerSettings
from tests.gateway.books import patient
from tests.gateway.ledger.builders import reservation, settlement

__all__ = ["Gateway", "Seen"]

START_S = 60.0


class Seen(msgspec.Struct, frozen=True):
    """How long each reserve took, and the processor time of the process since it began."""

    reserves_s: list[float]
    cpu_s: float


class Gateway:
    """The benchmark's side of one such process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._orders = process.stdin
        self._answers = process.stdout

    @classmethod
    async def start(cls, url: str, spool: Path, name: str, callers: int) -> "Gateway":
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", __name__, "--url", url, "--spool", str(spool)),
            *("--name", name, "--callers", str(callers)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 26,
        )
        gateway = cls(process)
        async with asyncio.timeout(START_S):
            await gateway.ask(0)
        return gateway

    async def ask(self, seconds: float) -> Seen:
        self._orders.write(f"{seconds}\n".encode())
        return msgspec.json.decode(await self._answers.readline(), type=Seen)

    async def stop(self) -> None:
        self._orders.close()
        await self._process.wait()


async def closed_loops(ledger: Ledger, name: str, callers: int, seconds: float) -> list[float]:
    """Each caller reserves, settles and begins again."""
    reserves_s: list[float] = []
    started = time.monotonic()

    async def caller(number: int) -> None:
        turn = 0
        while time.monotonic() < started + seconds:
            began = time.monotonic()
            hold = await ledger.reserve(reservation(f"req_{name}_{number}_{turn}"))
            reserves_s.append(time.monotonic() - began)
            ledger.settle(settlement(hold, datetime.now(UTC)))
            turn += 1

    await asyncio.gather(*(caller(number) for number in range(callers)))
    return reserves_s


async def serve(arguments: argparse.Namespace) -> None:
    ids = IdSource()
    ledger = Ledger(
        patient(arguments.url),
        gateway_id=GatewayId(arguments.name),
        settings=LedgerSettings(spool_dir=arguments.spool, reserve_timeout_s=30),
        clock=SystemClock(),
        ids=ids,
        metrics=Metrics(),
    )
    await ledger.start()
    gc.collect()
    gc.freeze()
    while order := await asyncio.to_thread(sys.stdin.readline):
        seconds = float(order)
        seen = (
            await closed_loops(ledger, ids.new(arguments.name), arguments.callers, seconds) if seconds else []
        )
        answer = msgspec.json.encode(Seen(seen, time.process_time()))
        await asyncio.to_thread(print, answer.decode(), flush=True)
    await ledger.drain()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--spool", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--callers", type=int, required=True)
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(arguments))


if __name__ == "__main__":
    main()
