"""A gateway without its HTTP server, in a process of its own: works on batches until it is killed or told to stop."""

import asyncio
import signal
import sys

from gateway.app import create_app
from gateway.batches.parts import Terms
from gateway.obs.logging import configure_logging
from gateway.settings import Settings


async def work(lease_s: float) -> None:
    configure_logging("warning")
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    app = create_app(Settings())
    app.batch_terms = Terms(lease_s=lease_s, lines_at_once=6, slice_lines=25, idle_s=0.1)
    await app.start()
    await stopping.wait()
    await app.stop()


if __name__ == "__main__":
    asyncio.run(work(float(sys.argv[1])))
