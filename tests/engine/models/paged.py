"""Runs a model as the runner would, with nothing but the forward batch: shuffled pages, any chunking."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.layers.batch import CausalLM, ForwardBatch, GroupBatch

BLOCK = 16


class PagedModel:
    """Sequences by number, each with its own pages in a poisoned pool."""

    def __init__(
        self, model: CausalLM, *, dtype: torch.dtype = torch.float32, num_blocks: int = 512, seed: int = 0
    ) -> None:
        config = model.config
        groups = model.kv_groups
        shape = (num_blocks, len(groups[0].layer_ids), 2, config.num_kv_heads, BLOCK, config.head_dim)
        self._model = model
        self._pool = torch.full(shape, float("nan"), dtype=dtype)
        self._free = list(range(num_blocks))
        random.Random(seed).shuffle(self._free)
        self._tables: dict[int, list[list[int]]] = {}
        self._lengths: dict[int, int] = {}

    def step(self, chunks: Sequence[tuple[int, Sequence[int]]], *, last: bool = False) -> Tensor:
        """Appends each (sequence, token ids) and returns the log-probabilities of all their tokens [T, V],
        or of the last one of each chunk [R, V]."""
        batch = self._batch(chunks)
        hidden = self._model.forward(batch, self._pool)
        if last:
            hidden = hidden[batch.query_start[1:].long() - 1]
        return torch.log_softmax(self._model.logits(hidden), dim=-1)

    def forget_behind_windows(self, sequence: int) -> None:
        """What the core does: pages that no later query can see leave the tables and get other contents."""
        for number, group in enumerate(self._model.kv_groups):
            if group.window is None:
                continue
            table = self._tables[sequence][number]
            for index in range((self._lengths[sequence] - group.window + 1) // BLOCK):
                self._pool[table[index]] = float("nan")
                table[index] = -1

    def _batch(self, chunks: Sequence[tuple[int, Sequence[int]]]) -> ForwardBatch:
        starts, lens, positions, token_ids = [0], [], [], []
        for sequence, ids in chunks:
            done = self._lengths.get(sequence, 0)
            positions += range(done, done + len(ids))
            token_ids += ids
            self._lengths[sequence] = done + len(ids)
            self._extend(sequence)
            starts.append(len(token_ids))
            lens.append(done + len(ids))
        return ForwardBatch(
            token_ids=torch.tensor(token_ids),
            positions=torch.tensor(positions),
            query_start=torch.tensor(starts, dtype=torch.int32),
            seq_lens=torch.tensor(lens, dtype=torch.int32),
            sampled=torch.arange(len(token_ids)),
            groups=tuple(
                self._group(number, chunks, positions) for number in range(len(self._model.kv_groups))
            ),
        )

    def _extend(self, sequence: int) -> None:
        tables = self._tables.setdefault(sequence, [[] for _ in self._model.kv_groups])
        for table in tables:
            while len(table) * BLOCK < self._lengths[sequence]:
                table.append(self._free.pop())

    def _group(
        self, number: int, chunks: Sequence[tuple[int, Sequence[int]]], positions: Sequence[int]
    ) -> GroupBatch:
        tables = [self._tables[sequence][number] for sequence, _ in chunks]
        owners = [row for row, (_, ids) in enumerate(chunks) for _ in ids]
        width = max(len(table) for table in tables)
        slots = [
            tables[row][p // BLOCK] * BLOCK + p % BLOCK for row, p in zip(owners, positions, strict=True)
        ]
        padded = [table + [-1] * (width - len(table)) for table in tables]
        return GroupBatch(torch.tensor(padded, dtype=torch.int32), torch.tensor(slots))


def greedy(model: CausalLM, prompt: Sequence[int], count: int) -> list[int]:
    """The `count` likeliest tokens after a prompt, one at a time."""
    paged = PagedModel(model)
    ids = [int(paged.step([(0, prompt)])[-1].argmax())]
    while len(ids) < count:
        ids.append(int(paged.step([(0, ids[-1:])])[-1].argmax()))
    return ids


def teacher_forced(
    model: CausalLM, ids: Sequence[int], *, chunk: int | None = None, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Log-probabilities after every token of one sequence, computed `chunk` tokens at a time."""
    paged = PagedModel(model, dtype=dtype)
    size = chunk or len(ids)
    return torch.cat([paged.step([(0, ids[start : start + size])]) for start in range(0, len(ids), size)])
