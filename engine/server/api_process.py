"""The main of one API process: builds the services, answers the port, follows the supervisor's word.

Started as `python -m engine api --control-fd N` with the listening socket inherited. Ends when the supervisor
says so or dies: no request is left without its terminal answer. Knows no routes' contents.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import secrets
import signal
import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import datetime
from pathlib import Path

import uvicorn
import uvloop
import zmq

from engine.config import EngineConfig
from engine.gguf import GGUFError
from engine.messages import CoreInbound, StepOutputs
from engine.server.acknowledged import is_acknowledged
from engine.server.app import EngineApp
from engine.server.bridge import Bridge
from engine.server.caller import Keys
from engine.server.connection import bounded_connections, watch_callers
from engine.server.control import (
    Abort,
    ApiSpec,
    CoreDown,
    CoreUp,
    Drain,
    DrainWanted,
    Serving,
    ToApi,
    encode_line,
    read_lines,
)
from engine.server.journal import Journal
from engine.server.metrics import Metrics
from engine.server.peers import Peers
from engine.server.pipes import Context, Receiver, Sender, core_address, worker_address
from engine.server.pooler import pooler_settings
from engine.server.routes import ROUTES
from engine.server.services import Phase, Services
from engine.text.assets import TextSources, default_cache_dir, load_assets
from engine.text.chat_template import ChatTemplateError
from engine.text.identity import model_hash
from engine.text.tokenizer import TokenizerError

_LOG = logging.getLogger(__name__)
_SNAPSHOT_S = 1.0
_ABORT_WAIT_S = 10.0
"""How long aborted requests may take to end; the core needs one step."""
ACKNOWLEDGE_S = 30.0
"""How long a drained process waits for the reader of its journal. What it did not read stays on the volume."""
_ACKNOWLEDGE_POLL_S = 0.1


def main(control: socket.socket) -> int:
    """Run until the supervisor ends this process; returns the exit status."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a terminal's Ctrl-C reaches the group; the supervisor decides
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_main(control))


async def _main(control: socket.socket) -> int:
    reader, writer = await asyncio.open_unix_connection(sock=control, limit=1 << 20)
    lines: AsyncIterator[ToApi] = read_lines(reader, ToApi)
    spec = await anext(lines)
    assert isinstance(spec, ApiSpec), spec
    try:
        process = ApiProcess(spec, writer)
    except (TokenizerError, ChatTemplateError, GGUFError, OSError) as error:
        _LOG.error("%s", error)  # what is wrong with the checkpoint's files
        return 1
    gc.collect()
    gc.freeze()  # vocabulary and code live as long as the process; collections need not look at them
    return await process.run(lines)


class ApiProcess:
    def __init__(self, spec: ApiSpec, supervisor: asyncio.StreamWriter) -> None:
        self._spec = spec
        self._supervisor = supervisor
        self._run_dir = Path(spec.run_dir)
        self._context: Context = zmq.Context()
        self._aborting = asyncio.Event()
        self._drain: asyncio.Task[None] | None = None
        self._status = 0
        self.services = build_services(
            spec.config, spec.worker, self._run_dir, request_drain=self._request_drain
        )
        self._server = _Server(
            uvicorn.Config(
                EngineApp(self.services, ROUTES),
                lifespan="off",
                ws="none",
                http=bounded_connections(),  # type: ignore[arg-type]  # a factory is all that it calls
                interface="asgi3",
                access_log=False,
                log_config=None,
                server_header=False,
                date_header=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=5,  # for callers that do not read their last bytes
            )
        )

    async def run(self, lines: AsyncIterator[ToApi]) -> int:
        services = self.services
        outputs: Receiver[StepOutputs] = Receiver(
            self._context,
            worker_address(self._run_dir, self._spec.worker),
            StepOutputs,
            services.bridge.on_step,
        )
        services.peers.open(self._context, self._run_dir)
        control = asyncio.create_task(self._follow(lines))
        control.add_done_callback(self._on_control_end)
        snapshots = asyncio.create_task(self._save_snapshots())
        listener = socket.socket(fileno=self._spec.listen_fd)
        watch_callers(listener)
        self._tell(Serving())
        await self._server.serve(sockets=[listener])
        for task in (control, snapshots):
            task.cancel()
        self._save_snapshot()
        services.journal.close()
        services.text_threads.shutdown(wait=False, cancel_futures=True)
        outputs.close()
        services.peers.close()
        services.bridge.core_down("this process ends")
        self._context.destroy(linger=0)  # whatever is still open must not keep this process alive
        return self._status

    async def _follow(self, lines: AsyncIterator[ToApi]) -> None:
        async for message in lines:
            self._obey(message)
        _LOG.error("the supervisor is gone")
        self._status = 1
        self.services.bridge.core_down("the supervisor is gone")
        self._aborting.set()
        self._start_drain()

    def _on_control_end(self, task: asyncio.Task[None]) -> None:
        """A process that cannot be told anything must not live on."""
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("the control task failed", exc_info=task.exception())
            self._status = 1
            self._server.should_exit = True

    def _obey(self, message: ToApi) -> None:
        bridge = self.services.bridge
        match message:
            case CoreUp():
                link: Sender[CoreInbound] = Sender(
                    self._context, core_address(self._run_dir, message.generation)
                )
                bridge.core_up(message.ready, message.core_pid, link)
            case CoreDown():
                self.services.metrics.count("engine_core_losses")
                bridge.core_down(message.reason)
            case Drain():
                self._start_drain()
            case Abort():
                self._aborting.set()
                self._start_drain()
            case ApiSpec():
                raise AssertionError("the specification comes once")

    def _request_drain(self) -> None:
        """For the whole engine; this process begins at once, so that who asked finds it draining."""
        self._tell(DrainWanted())
        self._start_drain()

    def _start_drain(self) -> None:
        if self._drain is None:
            self._drain = asyncio.create_task(self._drain_and_exit())

    async def _drain_and_exit(self) -> None:
        """Not ready at once, closed after the grace, gone when everything has ended."""
        services, settings = self.services, self._spec.config.server
        services.phase = Phase.GRACE
        _LOG.info("draining: %d requests in flight", len(services.in_flight))
        await self._first_of(self._grace(), self._aborting.wait())
        services.phase = Phase.CLOSED
        left_s = max(0.0, settings.drain_timeout_s - settings.drain_grace_s)
        await self._first_of(asyncio.sleep(left_s), self._aborting.wait(), services.in_flight.wait_empty())
        for generation in services.in_flight:
            generation.abort()
        await self._first_of(asyncio.sleep(_ABORT_WAIT_S), services.in_flight.wait_empty())
        if services.in_flight:
            services.bridge.core_down("it does not end what was aborted")
        try:
            await services.journal.flush()
            await self._first_of(self._acknowledged(), asyncio.sleep(ACKNOWLEDGE_S), self._aborting.wait())
            _LOG.info("drained")
        finally:  # a disk that fails must not keep a drained process alive
            self._server.should_exit = True

    async def _grace(self) -> None:
        """For balancers, which learn a moment later that this one is not ready."""
        await asyncio.sleep(self._spec.config.server.drain_grace_s)

    async def _acknowledged(self) -> None:
        """Until the journal's reader has everything, if there is one. It is answered meanwhile, like before."""
        directory = self.services.journal_dir
        while directory is not None and not await asyncio.to_thread(is_acknowledged, directory):  # noqa: ASYNC110  # the condition is in files of several processes
            await asyncio.sleep(_ACKNOWLEDGE_POLL_S)

    @staticmethod
    async def _first_of(*waits: Coroutine[None, None, object]) -> None:
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()

    async def _save_snapshots(self) -> None:
        while True:
            await asyncio.sleep(_SNAPSHOT_S)
            self._save_snapshot()

    def _save_snapshot(self) -> None:
        try:
            self.services.metrics.save()
        except OSError:
            self.services.metrics.count("engine_journal_errors")
            _LOG.exception("the figures for the sibling processes could not be written")

    def _tell(self, message: DrainWanted | Serving) -> None:
        self._supervisor.write(encode_line(message))


def build_services(
    config: EngineConfig, worker: int, run_dir: Path, *, request_drain: Callable[[], None]
) -> Services:
    """Everything an API process consists of, with the real clocks and randomness."""
    model, server = config.model, config.server
    sources = TextSources(
        model=Path(model.model),
        tokenizer=None if model.tokenizer is None else Path(model.tokenizer),
        chat_template=model.chat_template,
        generation_config=model.generation_config,
        tool_call_parser=model.tool_call_parser,
        reasoning_parser=model.reasoning_parser,
    )
    names = model.served_model_name or (Path(model.model).name,)
    journal_dir = None if server.journal_dir is None else Path(server.journal_dir)
    metrics = Metrics(run_dir, worker, names[0])
    services = Services(
        worker=worker,
        served_model_names=names,
        model_path=model.model,
        model_hash=model_hash(sources.model, sources.tokenizer),
        text=load_assets(sources, default_cache_dir(), _now),
        bridge=Bridge(
            time.monotonic,
            lambda: metrics.count("engine_late_outputs"),
            config.scheduler.max_num_queued_reqs,
        ),
        journal=Journal(journal_dir, worker, _wall_ms),
        journal_dir=journal_dir,
        metrics=metrics,
        keys=Keys(server.api_key, server.internal_key),
        peers=Peers(
            worker,
            server.api_server_workers,
            gateway_ids=lambda: services.gateway_ids(),
            abort=lambda request_id: services.abort_gateway_request(request_id),
        ),
        clock=time.monotonic,
        wall_ms=_wall_ms,
        draw_id=lambda: uuid.uuid4().hex,
        draw_seed=lambda: secrets.randbits(63),
        request_drain=request_drain,
        started_s=_wall_ms() // 1000,
        auto_tool_choice=model.enable_auto_tool_choice,
        runner=model.runner,
        pooler=pooler_settings(sources.model, model.pooler_config),
    )
    return services


class _Server(uvicorn.Server):
    """Leaves the signals alone: the supervisor decides when to stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _now() -> datetime:
    return datetime.fromtimestamp(time.time()).astimezone()
