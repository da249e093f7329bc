"""From a step's hidden states to embeddings: the last token's state, or the mean of all tokens of a prompt.

Place in the path: both runners keep one `Pooler`, tell it of rows as they come and go, and hand it the hidden states of
every step in which one of its rows works. Such rows sample nothing. A mean is summed up over the chunks of a prompt, in
fp64, and begins anew with every `RowInit`. Knows no normalisation and no dimensions: the server cuts vectors to what a
caller wants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec
import torch
from torch import Tensor

from engine.core.contract import RowInit, RowWork
from engine.messages import PoolingKind
from engine.runner.staging import HostCopies


@dataclass(slots=True)
class _Row:
    kind: PoolingKind
    count: int = 0
    total: Tensor | None = None
    """[H] fp64 sum of the first `count` hidden states."""


class Pooler:
    """The rows that want an embedding."""

    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}

    def set_row(self, init: RowInit) -> None:
        self.clear_row(init.row)
        if init.sampling.pooling is not None:
            self._rows[init.row] = _Row(init.sampling.pooling)

    def clear_row(self, row: int) -> None:
        self._rows.pop(row, None)

    def has_any(self, work: Sequence[RowWork]) -> bool:
        return bool(self._rows) and any(item.row in self._rows for item in work)

    def without_samples(self, work: Sequence[RowWork]) -> Sequence[RowWork]:
        """The same work, in which no row of ours samples a token."""
        if not self._rows:
            return work
        return [
            msgspec.structs.replace(item, samples=False) if item.row in self._rows else item for item in work
        ]

    def take(self, work: Sequence[RowWork], hidden: Tensor) -> dict[int, Tensor]:
        """By row [H] fp32 for those that end here. `hidden` [T, H] has the tokens of `work` side by side."""
        found: dict[int, Tensor] = {}
        first = 0
        for item in work if self._rows else ():
            row = self._rows.get(item.row)
            if row is not None:
                own = hidden[first : first + item.num_tokens]
                vector = own[-1] if row.kind == "last" else _mean(row, item.start, own)
                if item.samples:
                    found[item.row] = vector.float()
            first += item.num_tokens
        return found


class EmbeddingFetch:
    """Embeddings on their way to the host, by row."""

    def __init__(self, vectors: Mapping[int, Tensor]) -> None:
        self._rows = tuple(vectors)
        self._copies = HostCopies([torch.stack(tuple(vectors.values()))] if vectors else [])

    def fetched(self) -> dict[int, bytes]:
        """By row, as `StepResult.embeddings` has them; waits for the copy."""
        lines = chain.from_iterable(self._copies.fetched())
        return {row: line.numpy().tobytes() for row, line in zip(self._rows, lines, strict=True)}


def _mean(row: _Row, start: int, own: Tensor) -> Tensor:
    assert row.count == start, "a part of the prompt was skipped"
    part = own.double().sum(0)
    row.total = part if row.total is None else row.total + part
    row.count += own.shape[0]
    return row.total / row.count
