"""Executes schedules on a CUDA device without waiting for it: `contract.Runner` over graphs and device tables.

Place in the path: the core's loop launches a `ScheduleOutput` and collects a `StepResult`. A launch copies the
diff and four integers a row to the device and replays two graphs: the forward pass (its inputs are expanded from
the row tables on the device) and the head with the choice. Sampled tokens go to the row table on the device and,
on the side, to pinned memory, which `collect` waits for. Knows no requests and no clock.

A step in which a row follows a grammar, and whose token before is still being computed, is launched in two halves: the
forward pass at once, the choice when `collect` has brought that token to the host. By then the forward pass has just
begun, so the mask is there before it ends and the device never waits.

The choice has two sets of graphs. Where every row wants the likeliest token, one argmax is all; the other serves any
mix of rows, whose kernels leave at once where a row does not need them, but a dozen launches that do nothing still
cost some 25 µs, which a greedy step need not pay. A set for each mix of filters, penalties and log-probabilities
would save no more than that, for eight times the captures.

On a CPU (tests) the kernels are interpreted and nothing is captured; all else is the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

import torch
from torch import Tensor

from engine.core.contract import BatchError, BlockAppend, KVLayout, RowInit, ScheduleOutput, StepResult
from engine.grammar.rows import RowGrammar
from engine.layers.batch import CausalLM, ForwardBatch, GroupBatch
from engine.runner.gpu_sampler import GPUSampler, to_token_logprobs
from engine.runner.graphs import MIXED_SIZES, TOKEN_SIZES, GraphSet
from engine.runner.offload import HostPages
from engine.runner.pooling import EmbeddingFetch, Pooler
from engine.runner.prompt_logprobs import CHUNK_ROWS, PromptFetch, Span, score, spans_of
from engine.runner.sampler import to_step_result
from engine.runner.staging import StepSlot
from engine.runner.tables import RowTables
from kernels.attention_plan import AttentionPlan, allocate_plan, build_plan
from kernels.expand_batch import allocate_batch, expand_batch, write_sampled
from kernels.greedy import choose_greedily_triton
from kernels.logprobs import MAX_LOGPROBS

_STEPS_IN_FLIGHT = 2


@dataclass(slots=True)
class Flight:
    """A launched step: where its tokens will be, or why there will be none. Filled until its tokens are chosen."""

    step: int
    rows: tuple[int, ...] = ()
    lens: tuple[int, ...] = ()
    """Tokens of each such row after this step."""
    slot: StepSlot | None = None
    row_errors: Mapping[int, str] = field(default_factory=dict)
    """Rows whose settings are unusable; a row may have another owner when the step is collected."""
    refused: frozenset[int] = frozenset()
    """Those of them that their own grammar left without a choice."""
    grammars: Mapping[int, RowGrammar] = field(default_factory=dict)
    """Place in `rows` → the grammar that hears of the token."""
    logprobs: Mapping[int, int] = field(default_factory=dict)
    """Place in `rows` → number of alternatives wanted beside the chosen token."""
    prompt: PromptFetch | None = None
    """Log-probabilities of prompts that are on their way."""
    embeddings: EmbeddingFetch | None = None
    """Likewise."""
    graph_hits: int = 0
    graph_misses: int = 0
    error: Exception | None = None

    def count(self, *, is_hit: bool) -> bool:
        """Whether a graph was there. (Returned, to be branched on.)"""
        self.graph_hits += is_hit
        self.graph_misses += not is_hit
        return is_hit


class GPURunner:
    """`contract.Runner` on one CUDA device."""

    def __init__(
        self,
        model: CausalLM,
        kv_pool: Tensor,
        layout: KVLayout,
        *,
        max_num_seqs: int,
        max_model_len: int,
        max_num_batched_tokens: int,
        dtype: torch.dtype,
        batch_invariant: bool = False,
    ) -> None:
        """`batch_invariant`: as `TorchRunner` takes it."""
        device = kv_pool.device
        config = model.config
        self._model, self._kv_pool, self._layout = model, kv_pool, layout
        self._host = HostPages(layout.num_host_blocks, kv_pool)
        self._max_rows, self._max_tokens = max_num_seqs, max_num_batched_tokens
        self._tables = RowTables(max_num_seqs, max_model_len, layout, device)
        self._batch = allocate_batch(max_num_seqs, max_num_batched_tokens, len(layout.groups), device)
        self._work = torch.zeros(4, max_num_seqs, dtype=torch.int32, device=device)
        self._hidden = torch.zeros(max_num_seqs, config.hidden_size, dtype=dtype, device=device)
        self._token_ids = torch.zeros(max_num_seqs, dtype=torch.int32, device=device)
        shape = (config.num_heads, config.num_kv_heads, config.head_dim)
        self._plans = {
            group.window: allocate_plan(
                max_num_seqs,
                max_num_batched_tokens,
                *shape,
                device,
                group.window,
                is_fixed=batch_invariant,
                # Over e4m3 pages the kernel that can share is 12 % slower for rows that do not.
                shares=kv_pool.element_size() > 1,
            )
            for group in layout.groups
        }
        self._sampler = GPUSampler(max_num_seqs, config.vocab_size, config.eos_token_ids, device)
        width = self._sampler.logprobs(0).shape[1]
        self._slots = [
            StepSlot(max_num_seqs, width, pinned=device.type == "cuda") for _ in range(_STEPS_IN_FLIGHT + 1)
        ]
        self._pooler = Pooler()
        self._num_launched = 0
        self._last: Flight | None = None
        """Launched last and not collected yet."""
        self._open: Flight | None = None
        """Its forward pass is launched, its choice is not: it needs a token of the step before."""
        narrow = [size for size in TOKEN_SIZES if size <= max_num_seqs]
        self._decode_graphs = GraphSet(narrow)
        self._mixed_graphs = GraphSet([size for size in MIXED_SIZES if size <= max_num_batched_tokens])
        self._greedy_graphs = GraphSet(narrow)
        self._sampling_graphs = GraphSet(narrow)

    @torch.inference_mode()
    def warm_up(self) -> None:
        """Run the largest step, its head and its sampler, on padding alone: kernels compile, and torch takes
        from the card the most that any step will need. The row tables must be empty."""
        self._work.zero_()
        hidden = self._forward(self._max_tokens, wide=True)
        spans = [Span(0, 0, 0, min(CHUNK_ROWS, self._max_tokens), MAX_LOGPROBS)]
        PromptFetch(spans, score(self._model, hidden, spans, self._tables.tokens))
        self._choose(self._max_rows)
        self.close()

    @torch.inference_mode()
    def capture(self, *, largest_only: bool = False) -> None:
        """Capture every graph, or of each kind the largest. The row tables must be empty."""
        self._work.zero_()
        pool = torch.cuda.graph_pool_handle()
        count = 1 if largest_only else None
        self._mixed_graphs.capture(pool, lambda size: self._forward(size, wide=True), count)
        self._decode_graphs.capture(pool, lambda size: self._forward(size, wide=False), count)
        self._greedy_graphs.capture(pool, self._choose_greedily, count)
        self._sampling_graphs.capture(pool, self._choose, count)

    def launch(self, schedule: ScheduleOutput) -> Flight:
        """Put the step behind those launched before and return. Its errors surface in `collect`."""
        slot = self._slots[self._num_launched % len(self._slots)]
        self._num_launched += 1
        flight = Flight(schedule.step)
        with _failing(flight):
            self._launch(flight, schedule, slot)
        self._last = flight
        return flight

    def collect(self, handle: Flight) -> StepResult:
        """Wait for the step; see `contract.Runner.collect` for what it raises. Then the choice of the step behind it,
        if it had to wait: its forward pass is running meanwhile."""
        assert handle is not self._open, "steps are collected in the order of launch"
        try:
            found = self._collect(handle)
            return replace(found, graph_hits=handle.graph_hits, graph_misses=handle.graph_misses)
        finally:
            if self._last is handle:
                self._last = None
            if self._open is not None:
                flight, self._open = self._open, None
                with _failing(flight):
                    self._finish(flight)

    def close(self) -> None:
        """Wait for everything that was launched."""
        if self._kv_pool.is_cuda:
            torch.cuda.synchronize(self._kv_pool.device)

    def _collect(self, handle: Flight) -> StepResult:
        if isinstance(handle.error, torch.AcceleratorError):
            # The device's context is lost for good: no later step can work.
            raise handle.error
        if handle.error is not None:
            kind = type(handle.error).__name__
            raise BatchError(f"step {handle.step}: {kind}: {handle.error}") from handle.error
        prompt = handle.prompt.fetched() if handle.prompt is not None else {}
        embeddings = handle.embeddings.fetched() if handle.embeddings is not None else {}
        if handle.slot is None:
            return StepResult(handle.step, {}, prompt_logprobs=prompt, embeddings=embeddings)
        count = len(handle.rows)
        token_ids = handle.slot.fetched(count)
        for place, grammar in handle.grammars.items():
            if token_ids[place] >= 0:
                grammar.accept(token_ids[place])
        logprobs = {}
        if handle.logprobs:
            logprobs = to_token_logprobs(handle.slot.logprobs(count), handle.logprobs, handle.rows)
        return to_step_result(
            handle.step,
            handle.rows,
            token_ids,
            handle.row_errors,
            logprobs,
            prompt,
            handle.refused,
            embeddings,
        )

    def _launch(self, flight: Flight, schedule: ScheduleOutput, slot: StepSlot) -> None:
        self._apply(schedule, slot)
        if not schedule.work:
            return
        work = self._pooler.without_samples(schedule.work)
        self._work.copy_(slot.work(work), non_blocking=True)
        self._run_forward(flight, schedule)
        flight.rows = tuple(item.row for item in work if item.samples)
        if not flight.rows:
            return
        flight.slot = slot
        flight.lens = tuple(item.start + item.num_tokens for item in work if item.samples)
        flight.grammars = self._sampler.grammars_of(flight.rows)
        if self._last is not None and _share(flight.grammars, self._last.grammars):
            self._open = flight
        else:
            self._finish(flight)

    def _finish(self, flight: Flight) -> None:
        """Launch the choice of a step behind its forward pass. The rows that follow a grammar have heard of all their
        tokens."""
        rows, slot = flight.rows, flight.slot
        assert slot is not None
        self._sampler.send_masks(rows, self._sampler.masks(rows, flight.lens))
        if self._sampler.all_greedy(rows):
            if not flight.count(is_hit=self._greedy_graphs.replay(len(rows))):
                self._choose_greedily(len(rows))
        elif not flight.count(is_hit=self._sampling_graphs.replay(len(rows))):
            self._choose(len(rows))
        flight.logprobs = self._sampler.logprob_counts(rows)
        slot.fetch(
            self._token_ids[: len(rows)], self._sampler.logprobs(len(rows)) if flight.logprobs else None
        )
        flight.row_errors, flight.refused = self._sampler.errors(rows), self._sampler.refused(rows)

    def _apply(self, schedule: ScheduleOutput, slot: StepSlot) -> None:
        self._host.move(schedule, self._kv_pool)
        for row in schedule.freed_rows:
            self._sampler.clear_row(row)
            self._pooler.clear_row(row)
        for init in schedule.new_rows:
            self._pooler.set_row(init)
            self._tables.forget_pages(init.row)
            self._write_tokens(init)
        self._sampler.set_rows(schedule.new_rows)
        first_pages = (append for init in schedule.new_rows for append in _first_pages(init))
        offsets, pages = self._tables.page_edits(chain(first_pages, schedule.appends))
        if offsets:
            staged = slot.ints(offsets, pages).to(self._kv_pool.device, non_blocking=True)
            self._tables.blocks.view(-1).index_copy_(0, staged[0], staged[1].to(torch.int32))

    def _write_tokens(self, init: RowInit) -> None:
        # Torch's pinned allocator keeps the memory until the copy is over.
        host = torch.tensor(init.token_ids, dtype=torch.int32, pin_memory=self._kv_pool.is_cuda)
        self._tables.tokens[init.row, : host.shape[0]].copy_(host, non_blocking=True)

    def _run_forward(self, flight: Flight, schedule: ScheduleOutput) -> None:
        """Eagerly where log-probabilities or an embedding of a prompt are wanted: a graph leaves no other hidden states
        behind than the sampled rows'."""
        narrow_tokens = next(iter(self._plans.values())).narrow_tokens
        wide = any(item.num_tokens > narrow_tokens for item in schedule.work)
        spans = spans_of(schedule.work, self._sampler)
        if spans or self._pooler.has_any(schedule.work):
            flight.count(is_hit=False)
            hidden = self._forward(schedule.num_tokens, wide=wide)
            flight.embeddings = EmbeddingFetch(self._pooler.take(schedule.work, hidden))
            if spans:
                flight.prompt = PromptFetch(spans, score(self._model, hidden, spans, self._tables.tokens))
            return
        graphs = self._mixed_graphs if wide else self._decode_graphs
        if not flight.count(is_hit=graphs.replay(schedule.num_tokens)):
            self._forward(schedule.num_tokens, wide=wide)

    def _forward(self, num_tokens: int, *, wide: bool) -> Tensor:
        """Expand the work list to `num_tokens` tokens, run the model, and keep the sampled rows' hidden states.
        Runs eagerly or under capture: every address is static, and nothing depends on a value. Returns the hidden
        states of all tokens."""
        rows = min(num_tokens, self._max_rows)
        batch, tables = self._batch, self._tables
        expand_batch(batch, self._work, tables.tokens, tables.blocks, num_tokens, tables.block_size)
        plans: dict[int | None, AttentionPlan] = {}
        for window, plan in self._plans.items():
            plans[window] = plan.sized(rows, num_tokens, wide=wide)
            tables_of = [
                tables.blocks[i] for i, group in enumerate(self._layout.groups) if group.window == window
            ]
            build_plan(
                plans[window],
                batch.query_start[: rows + 1],
                batch.seq_lens[:rows],
                self._work[0, :rows],
                # Rows with the same pages in one group may have different ones in another.
                tables_of[0] if len(tables_of) == 1 else None,
                tables.block_size,
            )
        groups = tuple(
            GroupBatch(tables.blocks[index], batch.slots[index, :num_tokens], plans[group.window])
            for index, group in enumerate(self._layout.groups)
        )
        inputs = ForwardBatch(
            token_ids=batch.token_ids[:num_tokens],
            positions=batch.positions[:num_tokens],
            query_start=batch.query_start[: rows + 1],
            seq_lens=batch.seq_lens[:rows],
            sampled=batch.sampled[:rows],
            groups=groups,
        )
        hidden = self._model.forward(inputs, self._kv_pool)
        torch.index_select(hidden, 0, inputs.sampled, out=self._hidden[:rows])
        return hidden

    def _choose_greedily(self, count: int) -> None:
        """The likeliest token of the first `count` sampled rows, to the row tables and to `_token_ids`."""
        batch = self._batch
        logits = self._model.logits(self._hidden[:count])
        rows, lens = batch.sampled_rows[:count], batch.sampled_lens[:count]
        choose_greedily_triton(logits, self._token_ids[:count], self._tables.tokens, rows, lens)

    def _choose(self, count: int) -> None:
        """The next token of the first `count` sampled rows, whatever their settings; the sampler keeps what it found
        of their log-probabilities."""
        logits, batch = self._model.logits(self._hidden[:count]), self._batch
        rows, lens, token_ids = (
            batch.sampled_rows[:count],
            batch.sampled_lens[:count],
            self._token_ids[:count],
        )
        self._sampler.sample(logits, rows, lens, self._tables.tokens, token_ids)
        write_sampled(self._tables.tokens, rows, lens, token_ids)


@contextlib.contextmanager
def _failing(flight: Flight) -> Iterator[None]:
    """What goes wrong with a step is carried to its `collect`, which raises it."""
    try:
        with torch.inference_mode():
            yield
    except (RuntimeError, ValueError, AssertionError, LookupError, TypeError, MemoryError) as error:
        flight.error = error


def _share(ours: Mapping[int, RowGrammar], theirs: Mapping[int, RowGrammar]) -> bool:
    return bool(ours) and not {id(each) for each in ours.values()}.isdisjoint(map(id, theirs.values()))


def _first_pages(init: RowInit) -> Iterator[BlockAppend]:
    for group, pages in enumerate(init.block_ids):
        yield BlockAppend(init.row, group, pages)
