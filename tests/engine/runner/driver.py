"""Plays the core towards a runner, with full say over batch composition, chunks and depth of launching.

Keeps the contract of engine.core.contract: appends pages as they are needed, hands out pages in random
order, and forgets (−1) pages behind a window only in a fresh `RowInit`.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import torch

from engine.core.contract import (
    BlockAppend,
    KVGroup,
    KVLayout,
    RowInit,
    RowWork,
    ScheduleOutput,
    StepResult,
)
from engine.layers.batch import CausalLM
from engine.messages import SamplingParams, TokenLogprobs
from engine.runner.runner import TorchRunner


@dataclass
class Running:
    """One running sequence."""

    tokens: list[int]
    """The prompt and every sampled token that has been collected."""
    num_prompt: int
    sampling: SamplingParams
    num_computed: int = 0
    num_launched: int = 0
    """Sampled tokens launched, collected or not."""
    pages: list[list[int]] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprobs] = field(default_factory=list)
    error: str | None = None

    @property
    def outputs(self) -> list[int]:
        return self.tokens[self.num_prompt :]


class Driver:
    """Rows by number, pages from one pool."""

    def __init__(self, runner: TorchRunner, layout: KVLayout, seed: int = 0) -> None:
        self.runner = runner
        self.layout = layout
        self.rows: dict[int, Running] = {}
        self._free = list(range(layout.num_blocks))
        random.Random(seed).shuffle(self._free)
        self._new: list[RowInit] = []
        self._freed: list[int] = []
        self._step = 0
        self._in_flight: deque[Future[StepResult]] = deque()

    def add(
        self,
        row: int,
        prompt: Sequence[int],
        sampling: SamplingParams,
        outputs: Sequence[int] = (),
        cached: tuple[int, list[list[int]]] | None = None,
    ) -> Running:
        """A request takes `row`; `cached` = (tokens computed before, their pages per group)."""
        sequence = Running([*prompt, *outputs], len(prompt), sampling, num_launched=len(outputs))
        sequence.pages = [[] for _ in self.layout.groups]
        if cached is not None:
            sequence.num_computed = cached[0]
            sequence.pages = [list(pages) for pages in cached[1]]
        self.rows[row] = sequence
        tables = tuple(
            tuple(self._visible(pages, group, sequence.num_computed))
            for pages, group in zip(sequence.pages, self.layout.groups, strict=True)
        )
        self._new.append(RowInit(row, list(sequence.tokens), len(prompt), sampling, tables))
        return sequence

    def free(self, row: int) -> Running:
        self._freed.append(row)
        return self.rows.pop(row)

    def launch(self, wanted: dict[int, int]) -> None:
        """Start a step of up to `wanted[row]` tokens per row; a row samples when it reaches its end."""
        work, appends = [], []
        for row, count in wanted.items():
            sequence = self.rows[row]
            known = sequence.num_prompt + sequence.num_launched
            count = min(count, known - sequence.num_computed)
            end = sequence.num_computed + count
            appends += self._append(row, sequence, end)
            work.append(RowWork(row, sequence.num_computed, count, samples=end == known))
            sequence.num_computed = end
            sequence.num_launched += end == known
        work.sort(key=lambda item: (item.num_tokens, item.row))
        step = ScheduleOutput(self._step, tuple(work), tuple(self._freed), tuple(self._new), tuple(appends))
        self._step, self._freed, self._new = self._step + 1, [], []
        self._in_flight.append(self.runner.launch(step))

    def collect(self) -> StepResult:
        result = self.runner.collect(self._in_flight.popleft())
        for row, token in result.tokens.items():
            if row in self.rows:
                self.rows[row].tokens.append(token)
                if row in result.logprobs:
                    self.rows[row].logprobs.append(result.logprobs[row])
        for row, found in result.prompt_logprobs.items():
            if row in self.rows:
                self.rows[row].prompt_logprobs += found
        for row, error in result.failures.items():
            self.rows[row].error = error
        return result

    def run(self, num_outputs: int, chunk: int = 10_000, depth: int = 1) -> None:
        """All rows together until each has `num_outputs` tokens, `depth` steps in flight."""
        while True:
            open_rows = {
                row: chunk
                for row, sequence in self.rows.items()
                if sequence.num_launched < num_outputs and sequence.error is None
            }
            if not open_rows and not self._in_flight:
                return
            if open_rows:
                self.launch(open_rows)
            while len(self._in_flight) >= (depth if open_rows else 1):
                self.collect()

    def _append(self, row: int, sequence: Running, end: int) -> list[BlockAppend]:
        appends = []
        for group, pages in enumerate(sequence.pages):
            missing = -(-end // self.layout.block_size) - len(pages)
            if missing > 0:
                fresh = tuple(self._free.pop() for _ in range(missing))
                pages += fresh
                appends.append(BlockAppend(row, group, fresh))
        return appends

    def _visible(self, pages: list[int], group: KVGroup, num_computed: int) -> list[int]:
        if group.window is None:
            return pages
        behind = max(0, num_computed - group.window + 1) // self.layout.block_size
        return [-1] * behind + pages[behind:]


def layout_of(model: CausalLM, num_blocks: int = 400, block_size: int = 16) -> KVLayout:
    return KVLayout(block_size, num_blocks, model.kv_groups)


def make_runner(
    model: CausalLM,
    layout: KVLayout,
    max_num_seqs: int = 16,
    dtype: torch.dtype = torch.float32,
    *,
    batch_invariant: bool = False,
) -> TorchRunner:
    """A runner over a pool poisoned with NaN: nothing may be read before it was written."""
    config = model.config
    shape = (layout.num_blocks, len(layout.groups[0].layer_ids), 2, config.num_kv_heads)
    pool = torch.full((*shape, layout.block_size, config.head_dim), float("nan"), dtype=dtype)
    return TorchRunner(
        model,
        pool,
        layout,
        max_num_seqs=max_num_seqs,
        max_model_len=config.max_positions,
        num_threads=1,
        batch_invariant=batch_invariant,
    )
