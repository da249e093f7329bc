"""Executes schedules: applies the diff, runs the model, samples, and writes the tokens back to its tables.

Place in the path: the core's loop launches a `ScheduleOutput` and collects a `StepResult`; between the two,
the step runs on the runner's own thread (torch gives up the interpreter lock while it computes), so that
the core schedules the next step meanwhile. Steps run in the order of their launch, and everything the
runner holds is touched by that thread alone. Knows no requests and no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from engine.core.contract import BatchError, KVLayout, RowInit, RowWork, ScheduleOutput, StepResult
from engine.layers.batch import CausalLM
from engine.layers.threads import FEW_TOKENS
from engine.messages import SamplingParams, TokenLogprobs
from engine.runner.batch import expand
from engine.runner.offload import HostPages
from engine.runner.pooling import EmbeddingFetch, Pooler
from engine.runner.prompt_logprobs import score, spans_of, to_prompt_logprobs
from engine.runner.sampler import Sampler, to_step_result, to_token_logprobs
from engine.runner.tables import RowTables
from kernels.host_plan import PageShape


class TorchRunner:
    """`contract.Runner` over a `CausalLM`. One per process; `close` ends its thread."""

    def __init__(
        self,
        model: CausalLM,
        kv_pool: Tensor,
        layout: KVLayout,
        *,
        max_num_seqs: int,
        max_model_len: int,
        num_threads: int | None = None,
        batch_invariant: bool = False,
    ) -> None:
        """`batch_invariant`: a row's answer does not depend on the others of its steps; the model must be built for it
        too."""
        device = kv_pool.device
        self._model = model
        self._kv_pool = kv_pool
        self._host = HostPages(layout.num_host_blocks, kv_pool)
        self._pages = PageShape.of(kv_pool[:, 0])
        self._tables = RowTables(max_num_seqs, max_model_len, layout, device)
        self._sampler = Sampler(max_num_seqs, model.config.vocab_size, model.config.eos_token_ids, device)
        self._pooler = Pooler()
        self._batch_invariant = batch_invariant
        self._num_threads = num_threads or torch.get_num_threads()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="runner")

    def launch(self, schedule: ScheduleOutput) -> Future[StepResult]:
        """Queue the step behind those launched before and return at once."""
        return self._thread.submit(self._execute, schedule)

    def collect(self, handle: Future[StepResult]) -> StepResult:
        """Wait for the step; see `contract.Runner.collect` for what it raises."""
        return handle.result()

    def warm_up(self, num_rows: int, num_tokens: int) -> None:
        """Run a step of `num_tokens` spread over `num_rows`, then one token for each, with every stage of the
        sampler and no page written: what memory and one-time work a step can need is taken here."""
        per_row = max(1, min(num_tokens // num_rows, self._tables.max_model_len - 1))
        sampling = SamplingParams(
            seed=0,
            max_tokens=1,
            top_k=2,
            top_p=0.5,
            presence_penalty=0.5,
            num_logprobs=20,
            num_prompt_logprobs=20,
        )
        pages = ((-1,) * -(-(per_row + 1) // self._tables.block_size),) * len(self._tables.blocks)
        rows = [RowInit(row, [0] * per_row, per_row, sampling, pages) for row in range(num_rows)]
        prefill = tuple(RowWork(row, 0, per_row, samples=True) for row in range(num_rows))
        decode = tuple(RowWork(row, per_row, 1, samples=True) for row in range(num_rows))
        for step in (
            ScheduleOutput(0, prefill, new_rows=tuple(rows)),
            ScheduleOutput(1, decode),
            ScheduleOutput(2, (), freed_rows=tuple(range(num_rows))),
        ):
            self.collect(self.launch(step))

    def close(self) -> None:
        """Finish what was launched and end the thread."""
        self._thread.shutdown()

    def _execute(self, schedule: ScheduleOutput) -> StepResult:
        try:
            with torch.inference_mode():
                self._apply(schedule)
                return self._step(schedule)
        except torch.AcceleratorError:
            # The device's context is lost for good: no later step can work.
            raise
        except Exception as error:
            raise BatchError(f"step {schedule.step}: {type(error).__name__}: {error}") from error

    def _apply(self, schedule: ScheduleOutput) -> None:
        self._host.move(schedule, self._kv_pool)
        for row in schedule.freed_rows:
            self._sampler.clear_row(row)
            self._pooler.clear_row(row)
        for init in schedule.new_rows:
            self._tables.add_row(init)
            self._sampler.set_row(init.row, init.sampling, init.num_prompt_tokens)
            self._sampler.follow_grammar(init)
            self._pooler.set_row(init)
        self._tables.append_blocks(schedule.appends)

    def _step(self, schedule: ScheduleOutput) -> StepResult:
        if not schedule.work:
            return StepResult(schedule.step, {})
        # Threads cut a step's rows at places that depend on its size.
        is_single = self._batch_invariant or schedule.num_tokens <= FEW_TOKENS
        torch.set_num_threads(1 if is_single else self._num_threads)
        work = self._pooler.without_samples(schedule.work)
        inputs = expand(work, self._tables, self._pages, batch_invariant=self._batch_invariant)
        hidden = self._model.forward(inputs.forward, self._kv_pool)
        embeddings = EmbeddingFetch(self._pooler.take(schedule.work, hidden)).fetched()
        spans = spans_of(schedule.work, self._sampler)
        found = to_prompt_logprobs(spans, score(self._model, hidden, spans, self._tables.tokens))
        rows, lens = inputs.sampled_rows, inputs.sampled_lens
        if not rows:
            return StepResult(schedule.step, {}, prompt_logprobs=found, embeddings=embeddings)
        logits = self._model.logits(hidden[inputs.forward.sampled])
        token_ids, logprobs = self._draw(logits, rows, lens)
        device = self._kv_pool.device
        self._tables.write_sampled(
            torch.tensor(rows, device=device), torch.tensor(lens, device=device), token_ids
        )
        chosen = token_ids.tolist()
        for place, grammar in self._sampler.grammars_of(rows).items():
            if chosen[place] >= 0:
                grammar.accept(chosen[place])
        errors, refused = self._sampler.errors(rows), self._sampler.refused(rows)
        return to_step_result(schedule.step, rows, chosen, errors, logprobs, found, refused, embeddings)

    def _draw(
        self, logits: Tensor, rows: Sequence[int], lens: Sequence[int]
    ) -> tuple[Tensor, dict[int, TokenLogprobs]]:
        """[S] the next tokens, and by row the log-probabilities; each row by itself if that must not matter."""
        size = 1 if self._batch_invariant else len(rows)
        token_ids: list[Tensor] = []
        logprobs: dict[int, TokenLogprobs] = {}
        for start in range(0, len(rows), size):
            some = slice(start, start + size)
            drawn = self._sampler.sample(logits[some], rows[some], lens[some], self._tables.tokens)
            token_ids.append(drawn.token_ids)
            logprobs |= to_token_logprobs(drawn, rows[some])
        return torch.cat(token_ids), logprobs
