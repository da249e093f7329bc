"""A core that really computes, as a thread of the test, in the place of `tests.fakes.core.FakeCore`."""

from __future__ import annotations

import threading
import time
from typing import Any

from engine.config import EngineConfig
from engine.core.loop import Loop
from engine.core_process import core_config
from engine.core_transport import CoreTransport
from engine.messages import CoreInbound, CoreReady, Shutdown, StepOutputs
from engine.runner.load import build_runner


class RealCore:
    """Loop, runner and model of `config`; `die` ends it without a word."""

    def __init__(self, config: EngineConfig, transport: CoreTransport) -> None:
        built = build_runner(config)
        core = core_config(config, built)
        self.about = CoreReady(
            epoch="epoch-real",
            max_model_len=core.max_model_len,
            max_num_seqs=core.max_num_seqs,
            vocab_size=built.model.vocab_size,
            eos_token_ids=core.eos_token_ids,
            num_blocks=core.layout.num_blocks,
            block_size=core.layout.block_size,
            dtype=built.config.dtype,
            device=built.config.device,
        )
        self._runner = built.runner
        self._transport = transport
        self._is_dead = threading.Event()
        self._loop: Loop[Any] = Loop(self, built.runner, self._emit, time.monotonic, core)
        self._thread = threading.Thread(target=self._loop.run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def drain(self, timeout_s: float) -> list[CoreInbound]:
        """The loop's inbox."""
        if self._is_dead.is_set():
            return [Shutdown()]
        return self._transport.drain(min(timeout_s, 0.05))

    def die(self) -> None:
        if not self._is_dead.is_set():
            self._is_dead.set()
            self._thread.join(10)
            self._runner.close()
            self._transport.close(linger_s=0)

    def _emit(self, worker: int, message: StepOutputs) -> None:
        if not self._is_dead.is_set():
            self._transport.emit(worker, message)
