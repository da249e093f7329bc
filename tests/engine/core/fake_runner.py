"""A runner whose "model" is a hash, so that every bookkeeping mistake changes a token or fails an assert.

The next token is a function of the row's whole token history and its seed. A page slot remembers what was
written there: (group, position, history up to it, owner), and every position that a row attends to is
looked up through the row's block tables and compared. `owner` stands for the cache salt: it is the seed,
so rows of different seeds must never meet in a page. Steps run at launch, in order; results wait for
`collect`. A failed step leaves junk behind, and junk spreads to whatever is computed on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from engine.core.contract import BatchError, KVLayout, RowInit, RowWork, ScheduleOutput, StepResult
from engine.messages import AddRequest, SamplingParams, TokenLogprobs

JUNK = -7
JUNK_TOKEN = 10**6

FailBatch = Callable[[ScheduleOutput], bool]
FailRow = Callable[[SamplingParams, int], bool]
"""(sampling, position of the token to sample) → this row fails here."""


def extend_history(history: int, token: int) -> int:
    return JUNK if JUNK in (history, token) or token == JUNK_TOKEN else hash((history, token)) & 0x7FFFFFFF


def expected_embedding(request: AddRequest) -> bytes:
    """Of a request that asks for pooling."""
    history = 0
    for token in request.prompt_token_ids:
        history = extend_history(history, token)
    return str(history).encode()


def next_token(
    history: int, sampling: SamplingParams, num_outputs: int, vocab_size: int, ends: set[int]
) -> int:
    """Deterministic in everything that may matter; end tokens are masked before `min_tokens`."""
    if history == JUNK:
        return JUNK_TOKEN
    token = hash((history, sampling.seed)) % vocab_size
    while num_outputs < sampling.min_tokens and token in ends:
        token = (token + 1) % vocab_size
    return token


def expected_answer(
    request: AddRequest, vocab_size: int, eos_token_ids: tuple[int, ...]
) -> tuple[list[int], str]:
    """What a request answers when it is alone in the world, straight from the definition."""
    sampling, history, answer = request.sampling, 0, []
    ends = set(sampling.stop_token_ids) | (set() if sampling.ignore_eos else set(eos_token_ids))
    for token in request.prompt_token_ids:
        history = extend_history(history, token)
    while True:
        token = next_token(history, sampling, len(answer), vocab_size, ends)
        answer.append(token)
        if token in ends and len(answer) > sampling.min_tokens:
            return answer, "stop"
        if len(answer) == sampling.max_tokens:
            return answer, "length"
        history = extend_history(history, token)


@dataclass
class _Row:
    """The runner's tables for one stay of a request in a row."""

    init: RowInit
    tokens: list[int]
    tables: list[list[int]]
    histories: list[int] = field(default_factory=list)
    """histories[p]: of tokens 0..p."""
    computed: int | None = None
    """End of the last work; None before the first one."""

    def history(self, position: int) -> int:
        while len(self.histories) <= position:
            before = self.histories[-1] if self.histories else 0
            self.histories.append(extend_history(before, self.tokens[len(self.histories)]))
        return self.histories[position]


@dataclass
class _Handle:
    result: StepResult
    error: str | None
    touched: dict[int, set[int]]
    """Page → identities of the rows that read or write it in this step."""


class FakeRunner:
    """Checks everything that the contract promises to a runner."""

    def __init__(
        self,
        layout: KVLayout,
        *,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        vocab_size: int = 97,
        eos_token_ids: tuple[int, ...] = (0,),
        fails_batch: FailBatch = lambda schedule: False,
        fails_row: FailRow = lambda sampling, position: False,
        refuses_rows: bool = False,
        on_step: Callable[[ScheduleOutput], None] = lambda schedule: None,
    ) -> None:
        self.layout = layout
        self.vocab_size = vocab_size
        self.eos_token_ids = eos_token_ids
        self.schedules: list[ScheduleOutput] = []
        self.keeps_schedules = False
        self.max_in_flight = 0
        self._max_num_seqs = max_num_seqs
        self._max_num_batched_tokens = max_num_batched_tokens
        self._fails_batch = fails_batch
        self._fails_row = fails_row
        self._refuses_rows = refuses_rows
        self._on_step = on_step
        self._rows: dict[int, _Row] = {}
        self._slots: dict[tuple[int, int], tuple[int, int, int, int]] = {}
        self._host: dict[int, list[tuple[int, int, int, int] | None]] = {}
        self.num_moved = 0
        self._in_flight: list[_Handle] = []
        self._last_step = 0

    def launch(self, schedule: ScheduleOutput) -> _Handle:
        if self.keeps_schedules:
            self.schedules.append(schedule)
        self._on_step(schedule)
        self._check_schedule(schedule)
        self._apply_diff(schedule)
        failed = {work.row for work in schedule.work if work.samples and self._row_fails(work)}
        refused = frozenset(failed if self._refuses_rows else ())
        handle = _Handle(StepResult(schedule.step, {}, refused=refused), None, {})
        if self._fails_batch(schedule):
            handle.error = "injected"
        self._move_pages(schedule, handle)
        self._note_pages(schedule, handle)
        for work in schedule.work:
            self._write(work, is_junk=handle.error is not None or work.row in failed)
        handle.result.failures.update(dict.fromkeys(sorted(failed), "injected row failure"))
        for work in schedule.work:
            self._attend_and_sample(work, handle)
        self._in_flight.append(handle)
        self.max_in_flight = max(self.max_in_flight, len(self._in_flight))
        assert len(self._in_flight) <= 2, "at most two steps in flight"
        return handle

    def collect(self, handle: _Handle) -> StepResult:
        assert self._in_flight.pop(0) is handle, "collected out of order"
        if handle.error is not None:
            raise BatchError(handle.error)
        return handle.result

    def _check_schedule(self, schedule: ScheduleOutput) -> None:
        assert schedule.step == self._last_step + 1
        self._last_step = schedule.step
        order = [(work.num_tokens, work.row) for work in schedule.work]
        rows = {work.row for work in schedule.work}
        assert order == sorted(order)
        assert len(rows) == len(order), "each row at most once"
        assert all(num_tokens > 0 for num_tokens, _ in order)
        assert 0 < schedule.num_tokens <= self._max_num_batched_tokens
        assert all(0 <= row < self._max_num_seqs for row in rows)
        assert {init.row for init in schedule.new_rows} <= rows, "a new row has work at once"
        assert {append.row for append in schedule.appends} <= rows, "diffs concern rows with work"
        pages = [page for init in schedule.new_rows for table in init.block_ids for page in table]
        pages += [page for append in schedule.appends for page in append.block_ids]
        assert all(-1 <= page < self.layout.num_blocks for page in pages)

    def _apply_diff(self, schedule: ScheduleOutput) -> None:
        for row in schedule.freed_rows:
            del self._rows[row]
        for init in schedule.new_rows:
            assert init.row not in self._rows, "the row is taken"
            assert len(init.block_ids) == len(self.layout.groups)
            self._rows[init.row] = _Row(init, list(init.token_ids), [list(table) for table in init.block_ids])
        for append in schedule.appends:
            assert -1 not in append.block_ids
            self._rows[append.row].tables[append.group] += append.block_ids

    def _move_pages(self, schedule: ScheduleOutput, handle: _Handle) -> None:
        """A failed step leaves junk in both places."""
        size = self.layout.block_size
        junk = [(0, 0, JUNK, 0)] * size
        for move in schedule.offloads:
            content = [self._slots.get((move.page, offset)) for offset in range(size)]
            self._host[move.host_page] = content if handle.error is None else [*junk]
            assert 0 <= move.host_page < self.layout.num_host_blocks
        for move in schedule.restores:
            for other in self._in_flight:
                assert move.page not in other.touched, f"page {move.page} is in flight"
            brought = self._host[move.host_page] if handle.error is None else junk
            for offset, content in enumerate(brought):
                self._slots.pop((move.page, offset), None)
                if content is not None:
                    self._slots[move.page, offset] = content
        self.num_moved += len(schedule.offloads) + len(schedule.restores)

    def _note_pages(self, schedule: ScheduleOutput, handle: _Handle) -> None:
        """A page that a step in flight touches must not be written by another row meanwhile."""
        size = self.layout.block_size
        for work in schedule.work:
            row = self._rows[work.row]
            for group, table in enumerate(row.tables):
                first = self._first_seen(group, work.start) // size
                last = (work.start + work.num_tokens - 1) // size
                assert last < len(table), "positions without a page"
                for index in range(first, last + 1):
                    page = table[index]
                    if index * size + size > work.start:
                        for other in self._in_flight:
                            assert other.touched.get(page, {id(row)}) == {id(row)}, (
                                f"page {page} is in flight"
                            )
                    handle.touched.setdefault(page, set()).add(id(row))

    def _row_fails(self, work: RowWork) -> bool:
        return self._fails_row(self._rows[work.row].init.sampling, work.start + work.num_tokens)

    def _write(self, work: RowWork, *, is_junk: bool) -> None:
        row, size = self._rows[work.row], self.layout.block_size
        end = work.start + work.num_tokens
        if row.computed is not None:
            assert work.start == row.computed, "a row is computed without gaps"
        elif row.init.sampling.pooling == "mean":
            assert work.start == 0, "a mean needs every position"
        row.computed = end
        assert end <= len(row.tokens), "work on a token that nobody knows"
        assert work.samples == (end == len(row.tokens)), "a row samples exactly at its last known token"
        owner = row.init.sampling.seed
        for position in range(work.start, end):
            history = JUNK if is_junk else row.history(position)
            for group, table in enumerate(row.tables):
                page = table[position // size]
                assert page >= 0, "written behind the window"
                self._slots[page, position % size] = (group, position, history, owner)

    def _attend_and_sample(self, work: RowWork, handle: _Handle) -> None:
        row = self._rows[work.row]
        end = work.start + work.num_tokens
        reads_junk = any(self._reads_junk(row, group, work.start, end) for group in range(len(row.tables)))
        if reads_junk:
            for position in range(work.start, end):
                row.history(position)
                row.histories[position] = JUNK
            self._write_junk(row, work.start, end)
        if row.init.sampling.num_prompt_logprobs is not None:
            following = row.tokens[work.start + 1 : min(end + 1, row.init.num_prompt_tokens)]
            values = [float(JUNK if reads_junk else -token) for token in following]
            handle.result.prompt_logprobs[work.row] = [TokenLogprobs(value, 1, [], []) for value in values]
        if not work.samples:
            return
        history = JUNK if reads_junk else row.history(end - 1)
        sampling = row.init.sampling
        ends = set(sampling.stop_token_ids) | (set() if sampling.ignore_eos else set(self.eos_token_ids))
        num_outputs = end - row.init.num_prompt_tokens
        token = next_token(history, sampling, num_outputs, self.vocab_size, ends)
        if work.row in handle.result.failures:
            row.tokens.append(JUNK_TOKEN)
            return
        row.tokens.append(token)
        if sampling.pooling is not None:
            handle.result.embeddings[work.row] = str(history).encode()
            return
        handle.result.tokens[work.row] = token
        if sampling.num_logprobs is not None:
            handle.result.logprobs[work.row] = TokenLogprobs(-float(token), 1, [token], [-float(token)])

    def _reads_junk(self, row: _Row, group: int, start: int, end: int) -> bool:
        """Every key that the queries start..end-1 see must be the row's own past. Junk may be there."""
        size, table, owner = self.layout.block_size, row.tables[group], row.init.sampling.seed
        for position in range(self._first_seen(group, start), end):
            page = table[position // size]
            assert page >= 0, f"position {position} is visible from {start} but its page is gone"
            content = self._slots.get((page, position % size))
            assert content is not None, f"page {page} was never written"
            if content[2] == JUNK:
                return True
            expected = (group, position, row.history(position), owner)
            if expected[2] == JUNK:
                return True
            assert content == expected, f"position {position} holds {content} and not {expected}"
        return False

    def _write_junk(self, row: _Row, start: int, end: int) -> None:
        size, owner = self.layout.block_size, row.init.sampling.seed
        for position in range(start, end):
            for group, table in enumerate(row.tables):
                self._slots[table[position // size], position % size] = (group, position, JUNK, owner)

    def _first_seen(self, group: int, query: int) -> int:
        window = self.layout.groups[group].window
        return 0 if window is None else max(0, query - window + 1)
