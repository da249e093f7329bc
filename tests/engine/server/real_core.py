"""A core that really computes, as a thread of the test, in the place of `tests.fakes.core.FakeCore`."""

from __future__ import annotations

import threading
import time
from typing import Any

from msgspec.structs import replace

from engine.config import EngineConfig
from engine.core.loop import Loop
from engine.core_process import GRAMMAR_CACHE_BYTES, _ready, compile_setup, core_config
from engine.core_transport import CoreTransport
from engine.grammar.cache import GrammarCache
from engine.grammar.compiler import Compiler
from engine.grammar.desk import GrammarDesk
from engine.messages import CoreInbound, Shutdown, StepOutputs
from engine.runner.load import build_runner

PATIENCE_S = 600.0
"""A busy machine may take minutes to start the process that compiles; that is nothing that these tests are about."""


class RealCore:
    """Loop, runner and model of `config`; `die` ends it without a word."""

    def __init__(self, config: EngineConfig, transport: CoreTransport) -> None:
        built = build_runner(config)
        core = core_config(config, built)
        self.about = _ready("epoch-real", built, core)
        self._runner = built.runner
        self._transport = transport
        self._is_dead = threading.Event()
        setup = replace(compile_setup(config, built), wall_s=PATIENCE_S)
        self._compiler = Compiler(setup, start_s=PATIENCE_S)
        transport.wake_on(self._compiler.fileno())
        desk = GrammarDesk(
            self,
            self._emit,
            self._compiler,
            GrammarCache(GRAMMAR_CACHE_BYTES),
            time.monotonic,
            max_held=core.max_num_queued_reqs,
            patience_s=PATIENCE_S,
        )
        self._loop: Loop[Any] = Loop(desk, built.runner, desk.emit, time.monotonic, core)
        self._thread = threading.Thread(target=self._loop.run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def drain(self, timeout_s: float) -> list[CoreInbound]:
        """The desk's inbox."""
        if self._is_dead.is_set():
            return [Shutdown()]
        return self._transport.drain(min(timeout_s, 0.05))

    def die(self) -> None:
        if not self._is_dead.is_set():
            self._is_dead.set()
            self._thread.join(10)
            self._runner.close()
            self._compiler.close()
            self._transport.close(linger_s=0)

    def _emit(self, worker: int, message: StepOutputs) -> None:
        if not self._is_dead.is_set():
            self._transport.emit(worker, message)
