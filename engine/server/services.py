"""What the routes share: the parts of one API process, and its state of life.

Built once by the process main (`api_process`) and passed to the routes. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from engine.config import RunnerKind
from engine.server.bridge import Bridge
from engine.server.caller import Keys
from engine.server.journal import Journal
from engine.server.metrics import Metrics
from engine.server.peers import Peers
from engine.server.pooler import PoolerSettings
from engine.text.assets import TextAssets

if TYPE_CHECKING:
    from engine.server.generation import Generation

ResultT = TypeVar("ResultT")

INLINE_SIZE = 4096
"""Bytes or characters of text; work on more takes longer than the event loop may be held up."""
TEXT_THREADS = 2
HEARTBEAT_LIMIT_S = 60.0
"""A core that has not given a sign of life for this long is hung."""


class Phase(Enum):
    """The life of an API process. Requests are taken in the first two."""

    SERVING = "serving"
    GRACE = "grace"
    """Draining, but balancers may not know yet."""
    CLOSED = "closed"


class InFlight:
    """The requests between submission and their last byte."""

    def __init__(self) -> None:
        self._generations: set[Generation] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._generations)

    def __iter__(self) -> Iterator[Generation]:
        return iter(list(self._generations))

    def add(self, generation: Generation) -> None:
        self._generations.add(generation)
        self._empty.clear()

    def remove(self, generation: Generation) -> None:
        self._generations.remove(generation)
        if not self._generations:
            self._empty.set()

    async def wait_empty(self) -> None:
        await self._empty.wait()


@dataclass(slots=True, kw_only=True)
class Services:
    worker: int
    """Index of this API process."""
    served_model_names: tuple[str, ...]
    model_path: str
    model_hash: str
    text: TextAssets
    bridge: Bridge
    journal: Journal
    journal_dir: Path | None
    metrics: Metrics
    keys: Keys
    peers: Peers
    clock: Callable[[], float]
    """Monotonic seconds."""
    wall_ms: Callable[[], int]
    draw_id: Callable[[], str]
    draw_seed: Callable[[], int]
    request_drain: Callable[[], None]
    """Asks the supervisor to drain the whole engine."""
    started_s: int = 0
    auto_tool_choice: bool = True
    """Models may call tools of their own accord."""
    runner: RunnerKind = "auto"
    """What is served: answers, embeddings, or both."""
    pooler: PoolerSettings = field(default_factory=PoolerSettings)
    phase: Phase = Phase.SERVING
    in_flight: InFlight = field(default_factory=InFlight)
    journal_pages: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One page of the journal at a time: a full one takes some 20 MiB for a moment."""
    text_threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(TEXT_THREADS, thread_name_prefix="text")
    )
    """Apart from the loop's own threads, which the journal needs: its records must not wait for a long text."""

    async def beside_loop(self, size: int, work: Callable[[], ResultT]) -> ResultT:
        """Parsing, rendering and tokenising: at once if little, in a thread if `size` says that it is much."""
        if size <= INLINE_SIZE:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self.text_threads, work)

    @property
    def state(self) -> str:
        """As /internal/status names it."""
        if self.phase is not Phase.SERVING:
            return "draining"
        return "starting" if self.bridge.ready is None else "ready"

    @property
    def hung(self) -> bool:
        """True when a core runs but its loop has stopped."""
        return self.bridge.ready is not None and self.clock() - self.bridge.last_step_at > HEARTBEAT_LIMIT_S

    def gateway_ids(self) -> list[str]:
        """The gateway's ids of the requests in flight here."""
        ids = {generation.caller.gateway_request_id for generation in self.in_flight}
        return sorted(index for index in ids if index is not None)

    def abort_gateway_request(self, request_id: str) -> bool:
        """End a request of this process here; False if it is not in flight."""
        found = [one for one in self.in_flight if one.caller.gateway_request_id == request_id]
        for generation in found:
            generation.abort()
        return bool(found)

    def load_headers(self) -> dict[str, str]:
        load, ready = self.bridge.load, self.bridge.ready
        return {
            "x-engine-epoch": ready.epoch if ready else "",
            "x-engine-running": str(load.num_running),
            "x-engine-waiting": str(load.num_waiting),
            "x-engine-kv-usage": f"{load.kv_usage:.4f}",
            "x-engine-predicted-delay-ms": f"{load.predicted_queue_delay_s * 1e3:.0f}",
            "x-engine-predicted-ttft-ms": f"{load.predicted_ttft_s * 1e3:.0f}",
        }
