"""The whole core around a `FakeRunner`: virtual time, a list for an inbox, answers kept by request."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from engine.core.config import CoreConfig
from engine.core.contract import KVGroup, KVLayout, ScheduleOutput
from engine.core.loop import Loop
from engine.core.pace import Allowance
from engine.core.step import StepPlan
from engine.core.steptime import StepTimes
from engine.messages import (
    AbortRequest,
    AddRequest,
    CoreInbound,
    SamplingParams,
    StepOutputs,
    TokenOutput,
)
from tests.engine.core.fake_runner import FailBatch, FailRow, FakeRunner

STEP_S = 0.01
FULL = KVGroup((0,), None)
STEPS_MAX = 200_000


def layout(
    num_blocks: int = 64,
    *,
    block_size: int = 16,
    windows: tuple[int | None, ...] = (None,),
    num_host_blocks: int = 0,
) -> KVLayout:
    groups = tuple(KVGroup((index,), window) for index, window in enumerate(windows))
    return KVLayout(block_size, num_blocks, groups, num_host_blocks)


def config(pages: KVLayout | None = None, **changes: object) -> CoreConfig:
    base = CoreConfig(
        layout=pages or layout(),
        max_model_len=512,
        max_num_seqs=8,
        max_num_batched_tokens=64,
        eos_token_ids=(0,),
        debug_invariants=True,
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def add(id: str, prompt: list[int] | int, max_tokens: int = 8, **fields: object) -> AddRequest:
    """A request; the fields that SamplingParams has go there. The seed follows the salt unless given: the
    fake runner takes it for the owner of a page."""
    tokens = list(range(100, 100 + prompt)) if isinstance(prompt, int) else prompt
    salt = fields.get("cache_salt", b"")
    assert isinstance(salt, bytes)
    sampling = {name: fields.pop(name) for name in list(fields) if name in SamplingParams.__struct_fields__}
    sampling.setdefault("seed", int.from_bytes(salt, "big"))
    sampling.setdefault("ignore_eos", True)
    return AddRequest(
        request_id=id,
        worker=fields.pop("worker", 0),  # type: ignore[arg-type]
        prompt_token_ids=tokens,
        sampling=SamplingParams(max_tokens=max_tokens, **sampling),  # type: ignore[arg-type]
        **fields,  # type: ignore[arg-type]
    )


@dataclass
class Answer:
    """What one request's caller received."""

    outputs: list[TokenOutput] = field(default_factory=list)

    @property
    def tokens(self) -> list[int]:
        return [token for output in self.outputs for token in output.token_ids]

    @property
    def finals(self) -> list[TokenOutput]:
        return [output for output in self.outputs if output.finish_reason is not None]

    @property
    def final(self) -> TokenOutput:
        (final,) = self.finals
        assert self.outputs[-1] is final, "nothing follows the terminal output"
        return final

    @property
    def reason(self) -> str | None:
        return self.final.finish_reason


class Engine:
    """Turn it by hand or run it until everything is answered."""

    def __init__(
        self,
        settings: CoreConfig,
        *,
        vocab_size: int = 97,
        fails_batch: FailBatch = lambda schedule: False,
        fails_row: FailRow = lambda sampling, position: False,
        refuses_rows: bool = False,
    ) -> None:
        self.config = settings
        self.now = 0.0
        self.answers: dict[str, Answer] = {}
        self.emitted: list[tuple[int, StepOutputs]] = []
        self.inbox: list[CoreInbound] = []
        self.runner = FakeRunner(
            settings.layout,
            max_num_seqs=settings.max_num_seqs,
            max_num_batched_tokens=settings.max_num_batched_tokens,
            vocab_size=vocab_size,
            eos_token_ids=settings.eos_token_ids,
            fails_batch=fails_batch,
            fails_row=fails_row,
            refuses_rows=refuses_rows,
            on_step=self._step_takes_time,
        )
        self.loop = Loop(self, self.runner, self._receive, lambda: self.now, settings)

    def submit(self, *messages: CoreInbound) -> None:
        for message in messages:
            if isinstance(message, AddRequest):
                self.answers.setdefault(message.request_id, Answer())
        self.inbox += messages

    def abort(self, *ids: str) -> None:
        self.submit(AbortRequest(request_ids=list(ids)))

    def turn(self, count: int = 1) -> None:
        for _ in range(count):
            self.loop.turn()

    def run(self, *messages: CoreInbound) -> None:
        """Until everything submitted is answered and no step is in flight."""
        self.submit(*messages)
        for _ in range(STEPS_MAX):
            if not self.inbox and self.loop.is_idle:
                break
            self.loop.turn()
        assert self.loop.is_idle, "the engine does not come to rest"
        self.loop.check_integrity()

    def drain(self, timeout_s: float) -> list[CoreInbound]:
        """The loop's inbox."""
        messages, self.inbox = self.inbox, []
        if not messages:
            self.now += timeout_s
        return messages

    def _receive(self, worker: int, message: StepOutputs) -> None:
        self.emitted.append((worker, message))
        for output in message.outputs:
            self.answers[output.request_id].outputs.append(output)

    def _step_takes_time(self, schedule: ScheduleOutput) -> None:
        self.now += STEP_S


def plan_of(budget: int) -> StepPlan:
    """Nobody was promised anything."""
    return StepPlan(budget, Allowance(StepTimes()))
