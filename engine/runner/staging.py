"""Pinned host memory of the steps in flight: what goes to the device with a step, and what comes back.

Place in the path: the GPU runner fills a slot when it launches a step and reads it when it collects the step.
A copy from or to pinned memory does not stop the host, so the memory must stay untouched until the device has
passed it: a slot is used again only after its step has been collected. What few steps bring back, in sizes that nobody
knows before, has memory of its own. Knows no model.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.core.contract import RowWork

_INTS_START = 4096


class StepSlot:
    """One step's host memory. Without a GPU it is ordinary memory, and a step is over when its launch is."""

    def __init__(self, max_rows: int, logprob_width: int, *, pinned: bool) -> None:
        self._pinned = pinned
        self._done = torch.cuda.Event() if pinned else None  # type: ignore[no-untyped-call]  # torch's own
        self._token_ids = torch.zeros(max_rows, dtype=torch.int32, pin_memory=pinned)
        self._logprobs = torch.zeros(max_rows, logprob_width, dtype=torch.int32, pin_memory=pinned)
        self._work = torch.zeros(4, max_rows, dtype=torch.int32, pin_memory=pinned)
        self._ints = torch.zeros(_INTS_START, dtype=torch.int64, pin_memory=pinned)

    def fetch(self, token_ids: Tensor, logprobs: Tensor | None = None) -> None:
        """Start copying the step's sampled tokens [S], and their log-probabilities [S, width] if any are wanted, all
        int32, behind everything launched so far."""
        self._token_ids[: token_ids.shape[0]].copy_(token_ids, non_blocking=True)
        if logprobs is not None:
            self._logprobs[: logprobs.shape[0]].copy_(logprobs, non_blocking=True)
        if self._done is not None:
            self._done.record()

    def fetched(self, count: int) -> list[int]:
        """Wait for the copy that `fetch` started."""
        if self._done is not None:
            self._done.synchronize()
        values: list[int] = self._token_ids[:count].tolist()
        return values

    def logprobs(self, count: int) -> Tensor:
        """Those that `fetch` brought, once `fetched` has returned; valid until the slot's next step."""
        return self._logprobs[:count]

    def work(self, work: Sequence[RowWork]) -> Tensor:
        """[4, R] table row | start | count | samples, the rest zero."""
        columns = [[item.row, item.start, item.num_tokens, item.samples] for item in work]
        self._work.zero_()
        if columns:
            self._work[:, : len(columns)] = torch.tensor(columns, dtype=torch.int32).T
        return self._work

    def ints(self, *lists: Sequence[int]) -> Tensor:
        """[len(lists), n] int64 copy of equally long lists; grows when a step brings more than ever before."""
        count, width = len(lists), len(lists[0])
        if count * width > self._ints.shape[0]:
            self._ints = torch.zeros(2 * count * width, dtype=torch.int64, pin_memory=self._pinned)
        staged = self._ints[: count * width].view(count, width)
        for line, values in zip(staged, lists, strict=True):
            line.copy_(torch.tensor(values, dtype=torch.int64))
        return staged


class HostCopies:
    """Tensors on their way to the host: started when a step is launched, read when it is collected."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        on_gpu = bool(tensors) and tensors[0].is_cuda
        self._host = [
            torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=on_gpu).copy_(
                tensor, non_blocking=True
            )
            for tensor in tensors
        ]
        self._done = torch.cuda.Event() if on_gpu else None  # type: ignore[no-untyped-call]  # torch's own
        if self._done is not None:
            self._done.record()

    def fetched(self) -> list[Tensor]:
        """The copies, in the same order; waits for them."""
        if self._done is not None:
            self._done.synchronize()
        return self._host
