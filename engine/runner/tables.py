"""The runner's tables: token ids and pages of every row, kept current by the schedules' diffs.

Place in the path: the runner applies each `ScheduleOutput` here, then `batch` expands the step's inputs
from these tensors, on whatever device they are. Knows no model and no sampling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from engine.core.contract import BlockAppend, KVLayout, RowInit


class RowTables:
    """`tokens` [rows, positions] int32 and `blocks` [groups, rows, spans] int32 (−1: no page)."""

    def __init__(self, max_rows: int, max_model_len: int, layout: KVLayout, device: torch.device) -> None:
        num_groups = len(layout.groups)
        spans = -(-max_model_len // layout.block_size)
        self.block_size = layout.block_size
        self.windows = tuple(group.window for group in layout.groups)
        self.max_model_len = max_model_len
        # One more than the longest sequence: the token sampled at its end is written too.
        self.tokens = torch.zeros(max_rows, max_model_len + 1, dtype=torch.int32, device=device)
        self.blocks = torch.full((num_groups, max_rows, spans), -1, dtype=torch.int32, device=device)
        self._num_blocks = [[0] * max_rows for _ in range(num_groups)]

    def add_row(self, init: RowInit) -> None:
        """A request takes a row, with every token and page it has so far."""
        assert len(init.token_ids) <= self.max_model_len, (init.row, len(init.token_ids))
        assert len(init.block_ids) == len(self._num_blocks), init.row
        device = self.tokens.device
        self.tokens[init.row, : len(init.token_ids)] = torch.tensor(
            init.token_ids, dtype=torch.int32, device=device
        )
        for group, pages in enumerate(init.block_ids):
            self.blocks[group, init.row, : len(pages)] = torch.tensor(pages, dtype=torch.int32, device=device)
            self._num_blocks[group][init.row] = len(pages)

    def append_blocks(self, appends: Sequence[BlockAppend]) -> None:
        """All pages added by one schedule, in one write."""
        offsets, pages = self.page_edits(appends)
        if pages:
            index = torch.tensor(offsets, device=self.blocks.device)
            values = torch.tensor(pages, dtype=torch.int32, device=self.blocks.device)
            self.blocks.view(-1)[index] = values

    def page_edits(self, appends: Iterable[BlockAppend]) -> tuple[list[int], list[int]]:
        """Where in the flattened `blocks` which page goes, for pages at the end of rows' tables. Counts them
        as written."""
        offsets: list[int] = []
        pages: list[int] = []
        _, max_rows, spans = self.blocks.shape
        for append in appends:
            first = self._num_blocks[append.group][append.row]
            start = (append.group * max_rows + append.row) * spans + first
            offsets += range(start, start + len(append.block_ids))
            pages += append.block_ids
            self._num_blocks[append.group][append.row] = first + len(append.block_ids)
        return offsets, pages

    def forget_pages(self, row: int) -> None:
        """The row's next pages are its first."""
        for counts in self._num_blocks:
            counts[row] = 0

    def write_sampled(self, rows: Tensor, positions: Tensor, token_ids: Tensor) -> None:
        """Sampled tokens become inputs of the next step without passing through the host. A row that could
        choose none (−1) computes token 0 there, in vain."""
        self.tokens[rows, positions] = token_ids.clamp_min(0).to(torch.int32)
