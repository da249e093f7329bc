"""The main of the core process: builds the runner, connects the sockets, runs the loop.

Started as `python -m engine core --control-fd N`; the only process of an engine that imports torch. Whatever goes
wrong with the runner ends it: the supervisor reports the loss and starts the next one. Knows no HTTP and no text.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import logging
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from engine.config import BLOCK_SIZE, ConfigError, EngineConfig
from engine.core.config import CoreConfig
from engine.core.loop import Loop
from engine.core.ports import Clock
from engine.core_transport import CoreTransport
from engine.gguf import GGUFError
from engine.grammar.cache import GrammarCache
from engine.grammar.compile_process import Setup
from engine.grammar.compiler import Compiler
from engine.grammar.desk import GrammarDesk
from engine.messages import CoreReady
from engine.models.model_config import ModelConfigError
from engine.runner.load import BuiltRunner, build_runner
from engine.server.control import CoreSpec, LineReader, Ready, ToCore
from engine.text.assets import default_cache_dir

_LOG = logging.getLogger(__name__)
_PR_SET_PDEATHSIG = 1
GRAMMAR_CACHE_BYTES = 256 << 20
"""Compiled grammars that no request uses at the moment; one takes 0.5 to 10 MiB."""


def main(control: socket.socket, clock: Clock = time.monotonic) -> int:
    """Run until the supervisor says otherwise; returns the exit status."""
    began_s = clock()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _die_with_parent()
    supervisor = LineReader(control, ToCore)
    spec = supervisor.wait_first()
    assert isinstance(spec, CoreSpec), spec
    try:
        built = build_runner(spec.config)
        core = core_config(spec.config, built)
    except (ConfigError, ModelConfigError, GGUFError, OSError) as error:
        _LOG.error("%s", error)
        return 1
    transport = CoreTransport(Path(spec.run_dir), spec.generation, core.num_workers, supervisor)
    compiler = Compiler(compile_setup(spec.config, built))
    transport.wake_on(compiler.fileno())
    desk = GrammarDesk(
        transport,
        transport.emit,
        compiler,
        GrammarCache(GRAMMAR_CACHE_BYTES),
        clock,
        max_held=core.max_num_queued_reqs,
        patience_s=core.queue_timeout_s,
    )
    loop: Loop[Any] = Loop(desk, built.runner, desk.emit, clock, core)
    gc.collect()
    gc.freeze()  # weights and code live as long as the process; collections need not look at them
    transport.tell_supervisor(Ready(_ready(spec.epoch, built, core, clock() - began_s)))
    loop.run()
    transport.close()
    return 0


def compile_setup(config: EngineConfig, built: BuiltRunner) -> Setup:
    """What grammars are compiled for, and what one may cost."""
    return Setup(
        tokenizer=config.model.tokenizer or config.model.model,
        cache_dir=str(default_cache_dir()),
        vocab_size=built.model.vocab_size,
        eos_token_ids=built.model.eos_token_ids,
        cpu_s=10.0,
        wall_s=30.0,
        memory_bytes=1 << 30,
        result_bytes=64 << 20,
        threads=max(1, min(4, (os.cpu_count() or 1) // 4)),
    )


def core_config(config: EngineConfig, built: BuiltRunner) -> CoreConfig:
    """The core's limits, from the flags and from what the model and the memory allow."""
    scheduler, resolved = config.scheduler, built.config
    return CoreConfig(
        layout=built.layout,
        max_model_len=resolved.max_model_len,
        max_num_seqs=resolved.max_num_seqs,
        max_num_batched_tokens=resolved.max_num_batched_tokens,
        max_num_mixed_tokens=resolved.max_num_mixed_tokens,
        eos_token_ids=built.model.eos_token_ids,
        num_workers=config.server.api_server_workers,
        max_num_queued_reqs=scheduler.max_num_queued_reqs,
        max_num_queued_tokens=scheduler.max_num_queued_tokens,
        queue_timeout_s=scheduler.queue_deadline_s,
        closes_late=resolved.device == "cuda",
        enable_prefix_caching=config.cache.enable_prefix_caching,
        swaps=scheduler.preemption_mode == "swap" and built.layout.num_host_blocks > 0,
        debug_invariants=config.server.debug_invariants,
    )


def _ready(epoch: str, built: BuiltRunner, core: CoreConfig, startup_s: float = 0.0) -> CoreReady:
    return CoreReady(
        epoch=epoch,
        max_model_len=core.max_model_len,
        max_num_seqs=core.max_num_seqs,
        vocab_size=built.model.vocab_size,
        eos_token_ids=core.eos_token_ids,
        num_blocks=built.layout.num_blocks,
        block_size=BLOCK_SIZE,
        dtype=built.config.dtype,
        device=built.config.device,
        embedding_size=built.model.hidden_size,
        startup_s=startup_s,
        warm_up_s=built.warm_up_s,
        has_grammars=importlib.util.find_spec("xgrammar") is not None,
    )


def _die_with_parent() -> None:
    """A step may run for seconds; a killed supervisor must not leave weights in memory for that long."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit("the supervisor is gone")
