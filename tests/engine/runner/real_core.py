"""The real core loop over a real runner, without processes: requests in, finished sequences out."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping

import torch

from engine.core.config import CoreConfig
from engine.core.contract import KVLayout
from engine.core.loop import Loop
from engine.layers.batch import CausalLM
from engine.messages import AddRequest, CoreInbound, LoadStats, SamplingParams, StepOutputs
from tests.engine.runner.driver import Running, make_runner

Requests = Mapping[str, tuple[list[int], SamplingParams]]


@dataclasses.dataclass
class Finished:
    """What the waves of requests gave."""

    rows: dict[str, Running]
    cached: dict[str, int]
    load: LoadStats


def run_waves(
    model: CausalLM, waves: list[Requests], dtype: torch.dtype = torch.float32, **changes: object
) -> Finished:
    """Each wave is submitted when the one before is done. `changes` are fields of CoreConfig, and
    `num_blocks`, `num_host_blocks`, and `batch_invariant` for the runner."""
    batch_invariant = bool(changes.pop("batch_invariant", False))
    num_blocks, num_host_blocks = changes.pop("num_blocks", 600), changes.pop("num_host_blocks", 0)
    assert isinstance(num_blocks, int)
    assert isinstance(num_host_blocks, int)
    config = CoreConfig(
        layout=KVLayout(16, num_blocks, model.kv_groups, num_host_blocks),
        max_model_len=model.config.max_positions,
        max_num_seqs=16,
        max_num_batched_tokens=512,
        eos_token_ids=model.config.eos_token_ids,
        debug_invariants=True,
    )
    config = dataclasses.replace(config, **changes)  # type: ignore[arg-type]  # names are checked at run time
    runner = make_runner(model, config.layout, config.max_num_seqs, dtype, batch_invariant=batch_invariant)
    caller = _Caller(waves)
    loop = Loop(caller, runner, caller.receive, time.monotonic, config)
    while caller.advance():
        loop.turn()
    runner.close()
    assert loop.is_idle
    assert caller.load is not None
    return Finished(caller.rows, caller.cached, caller.load)


class _Caller:
    """Both ends of the loop: its inbox and its listener."""

    def __init__(self, waves: list[Requests]) -> None:
        self.rows: dict[str, Running] = {}
        self.cached: dict[str, int] = {}
        self.load: LoadStats | None = None
        self._waves: Iterator[Requests] = iter(waves)
        self._open: set[str] = set()
        self._inbox: list[CoreInbound] = []

    def advance(self) -> bool:
        """Submit the next wave when nothing is open. False: everything is answered."""
        if not self._open:
            wave = next(self._waves, None)
            if wave is None:
                return False
            for name, (prompt, sampling) in wave.items():
                self.rows[name] = Running(list(prompt), len(prompt), sampling)
                self._open.add(name)
                self._inbox.append(
                    AddRequest(request_id=name, worker=0, prompt_token_ids=prompt, sampling=sampling)
                )
        return True

    def drain(self, timeout_s: float) -> list[CoreInbound]:
        messages, self._inbox = self._inbox, []
        return messages

    def receive(self, worker: int, message: StepOutputs) -> None:
        self.load = message.load
        for output in message.outputs:
            row = self.rows[output.request_id]
            row.tokens += output.token_ids
            row.logprobs += output.logprobs or []
            if output.num_cached_tokens is not None:
                self.cached[output.request_id] = output.num_cached_tokens
            if output.finish_reason is not None:
                self._open.remove(output.request_id)
                row.error = output.error_message
