"""FakeCore: speaks the core's side of the boundary (ZeroMQ, control socket) and does what a script says.

For tests of the server without torch. Unscripted, a sequence repeats its prompt until max_tokens. Runs as a thread
of the test, or as a process of its own (`python -m tests.fakes.core --control-fd N`) under the real supervisor.
"""

from __future__ import annotations

import argparse
import os
import socket
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.core_transport import CoreTransport
from engine.messages import (
    AbortRequest,
    AddRequest,
    CoreInbound,
    CoreReady,
    FinishReason,
    LoadStats,
    Shutdown,
    StepOutputs,
    TokenLogprobs,
    TokenOutput,
    WorkerGone,
)
from engine.server.control import LineReader, Ready, ToCore

HEARTBEAT_S = 0.2
HALT_AT = 150


@dataclass(frozen=True)
class Script:
    """What one sequence does."""

    tokens: tuple[int, ...] | None = None
    """None: the prompt, over and over."""
    finish: FinishReason = "stop"
    """How it ends when the tokens are used up ("stop": with one more token, `eos`)."""
    eos: int = 1
    per_step: int = 1
    cached_tokens: int = 0
    overrun: int = 0
    """Reported with the terminal output of an abort."""
    error_code: str | None = None
    error_message: str | None = None
    retry_after_s: float | None = None
    silent: bool = False
    """Never starts: stays in the queue until it is aborted."""


@dataclass
class _Sequence:
    request: AddRequest
    script: Script
    made: int = 0
    started: bool = False


@dataclass
class _State:
    sequences: dict[str, _Sequence] = field(default_factory=dict)
    outputs: dict[int, list[TokenOutput]] = field(default_factory=dict)
    steps: int = 0


def ready(
    epoch: str = "epoch-1", vocab_size: int = 512, max_model_len: int = 1024, has_grammars: bool = True
) -> CoreReady:
    return CoreReady(
        epoch=epoch,
        max_model_len=max_model_len,
        max_num_seqs=64,
        vocab_size=vocab_size,
        eos_token_ids=(1,),
        num_blocks=128,
        block_size=16,
        dtype="float32",
        device="cpu",
        embedding_size=8,
        has_grammars=has_grammars,
    )


class FakeCore:
    def __init__(self, transport: CoreTransport, num_workers: int = 1, step_s: float = 0.002) -> None:
        self.halt: Path | None = None
        """While this file is there, no sequence gets more than `HALT_AT` tokens."""
        self.seen: list[AddRequest] = []
        self.aborted: list[str] = []
        self.gone: list[int] = []
        self._transport = transport
        self._num_workers = num_workers
        self._step_s = step_s
        self._scripts: deque[Script] = deque()
        self._permits: threading.Semaphore | None = None
        self._dead = threading.Event()
        self._thread = threading.Thread(target=self.run, daemon=True)
        self._changed = threading.Condition()
        self._state = _State()

    # -- what tests say and ask ---------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def script(self, *scripts: Script) -> None:
        """The next sequences, in the order of their arrival."""
        self._scripts.extend(scripts)

    def hold(self) -> None:
        """From now on a step is made only when `release` allows it."""
        self._permits = threading.Semaphore(0)

    def release(self, steps: int = 1) -> None:
        assert self._permits is not None, "hold first"
        self._permits.release(steps)

    def die(self) -> None:
        """Stop without a word, as a killed process does."""
        if not self._dead.is_set():
            self._dead.set()
            self._thread.join(5)
            self._transport.close(linger_s=0)

    def wait_for(self, condition: Callable[[], bool], within_s: float = 60) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, within_s), "the core did not get there in time"

    @property
    def num_live(self) -> int:
        return len(self._state.sequences)

    # -- the loop -----------------------------------------------------------------------------------------

    def run(self) -> None:
        next_beat = 0.0
        while not self._dead.is_set():
            for message in self._transport.drain(0 if self._runnable() else 0.02):
                if isinstance(message, Shutdown):
                    self._end_all()
                    self._flush(list(range(self._num_workers)))
                    return
                self._receive(message)
            if self._runnable() and (self._permits is None or self._permits.acquire(blocking=False)):
                self._step()
                time.sleep(self._step_s)
            elif self._permits is not None:
                time.sleep(0.001)
            beat = time.monotonic() >= next_beat
            if beat:
                next_beat = time.monotonic() + HEARTBEAT_S
            self._flush(list(range(self._num_workers)) if beat else [])
            with self._changed:
                self._changed.notify_all()

    def _runnable(self) -> bool:
        return any(self._moves(sequence) for sequence in self._state.sequences.values())

    def _moves(self, sequence: _Sequence) -> bool:
        halted = self.halt is not None and sequence.made >= HALT_AT and self.halt.exists()
        return not sequence.script.silent and not halted

    def _receive(self, message: CoreInbound) -> None:
        if isinstance(message, AddRequest):
            self.seen.append(message)
            script = self._scripts.popleft() if self._scripts else Script(finish="length")
            self._state.sequences[message.request_id] = _Sequence(message, script)
        elif isinstance(message, AbortRequest):
            for request_id in message.request_ids:
                self._abort(request_id)
        elif isinstance(message, WorkerGone):
            self.gone.append(message.worker)
            for sequence in list(self._state.sequences.values()):
                if sequence.request.worker == message.worker:
                    self._abort(sequence.request.request_id)

    def _abort(self, request_id: str) -> None:
        sequence = self._state.sequences.pop(request_id, None)
        if sequence is not None:
            self.aborted.append(request_id)
            self._emit(sequence, [], finish="abort", overrun=sequence.script.overrun)

    def _end_all(self) -> None:
        for request_id in list(self._state.sequences):
            self._abort(request_id)

    def _step(self) -> None:
        self._state.steps += 1
        for sequence in list(self._state.sequences.values()):
            if self._moves(sequence):
                self._advance(sequence)

    def _advance(self, sequence: _Sequence) -> None:
        script, request = sequence.script, sequence.request
        if request.sampling.pooling is not None:
            del self._state.sequences[request.request_id]
            return self._emit(sequence, [], finish="stop", embedding=embedding_of(request.prompt_token_ids))
        tokens: list[int] = []
        finish: FinishReason | None = None
        stop: int | None = None
        for _ in range(script.per_step):
            source = script.tokens if script.tokens is not None else request.prompt_token_ids
            if script.tokens is not None and sequence.made >= len(source):
                finish = script.finish
                if finish == "stop":
                    stop = script.eos
                    tokens.append(stop)
                break
            token = source[sequence.made % len(source)]
            tokens.append(token)
            sequence.made += 1
            if token in request.sampling.stop_token_ids:
                finish, stop = "stop", token
                break
            if sequence.made >= request.sampling.max_tokens:
                finish = "length"
                break
        if finish is not None:
            del self._state.sequences[request.request_id]
        self._emit(sequence, tokens, finish=finish, stop=stop)

    def _emit(
        self,
        sequence: _Sequence,
        tokens: list[int],
        *,
        finish: FinishReason | None,
        stop: int | None = None,
        overrun: int = 0,
        embedding: bytes | None = None,
    ) -> None:
        script, wanted = sequence.script, sequence.request.sampling.num_logprobs
        first = not sequence.started
        sequence.started = True
        failed = finish == "error"
        output = TokenOutput(
            request_id=sequence.request.request_id,
            token_ids=tokens,
            prompt_logprobs=self._prompt_logprobs(sequence) if first else None,
            logprobs=None if wanted is None else [_logprobs(token, wanted) for token in tokens],
            finish_reason=finish,
            stop_token_id=stop,
            embedding=embedding,
            num_cached_tokens=script.cached_tokens if first else None,
            queue_ms=1.5 if first else None,
            num_overrun_tokens=overrun,
            error_code=script.error_code if failed else None,
            error_message=script.error_message if failed else None,
            retry_after_s=script.retry_after_s if failed else None,
        )
        self._state.outputs.setdefault(sequence.request.worker, []).append(output)

    def _prompt_logprobs(self, sequence: _Sequence) -> list[TokenLogprobs] | None:
        """All with the first token, as for a prompt of one step."""
        wanted = sequence.request.sampling.num_prompt_logprobs
        if wanted is None:
            return None
        return [_logprobs(token, wanted) for token in sequence.request.prompt_token_ids[1:]]

    def _flush(self, beats: list[int]) -> None:
        outputs, self._state.outputs = self._state.outputs, {}
        load = LoadStats(
            num_running=len(self._state.sequences),
            num_waiting=2,
            kv_usage=0.25,
            prefix_queries=100,
            prefix_hits=40,
            num_preemptions=3,
            steps=self._state.steps,
            step_ms=2.0,
            predicted_queue_delay_s=1.5,
            predicted_ttft_s=1.75,
        )
        for worker in {*outputs, *beats}:
            self._transport.emit(worker, StepOutputs(outputs=outputs.get(worker, []), load=load))


def embedding_of(prompt: Sequence[int]) -> bytes:
    """Eight numbers that tell prompts apart."""
    return array("f", [len(prompt), *(sum(prompt[place::7]) + 0.5 for place in range(7))]).tobytes()


def _logprobs(token: int, wanted: int) -> TokenLogprobs:
    ids = [token + offset for offset in range(wanted)]
    return TokenLogprobs(
        token_logprob=-0.5, rank=1, top_ids=ids, top_logprobs=[-0.5 - index for index in range(wanted)]
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--control-fd", type=int, required=True)
    control = socket.socket(fileno=parser.parse_args().control_fd)
    supervisor = LineReader(control, ToCore)
    spec = supervisor.wait_first()
    if os.environ.get("FAKE_CORE_FAILS"):
        raise SystemExit("the fake core was told to fail")
    workers = spec.config.server.api_server_workers
    transport = CoreTransport(Path(spec.run_dir), spec.generation, workers, supervisor)
    core = FakeCore(transport, workers, step_s=float(os.environ.get("FAKE_CORE_STEP_S", "0.002")))
    if halt := os.environ.get("FAKE_CORE_HALT"):
        core.halt = Path(halt)
    transport.tell_supervisor(Ready(ready(spec.epoch)))
    core.run()
    transport.close()


if __name__ == "__main__":
    main()
