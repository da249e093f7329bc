"""How long a step takes: a model fitted online from tokens, sequences, keys read and keys compared.

`loop` tells it what each step took; `scheduler` asks how many prompt tokens a step can hold beside its answers
so that a promised time between tokens is kept, and `load` what the engine can sustain. Kept are the last steps of
every size, so that a long time of answering alone does not forget what prompts cost. Knows no requests.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from operator import mul

from engine.core.step import Step

_KEPT_PER_SIZE = 16
_SMALL = 5
"""Steps below 32 tokens are one size: rare ones would be remembered from long ago."""
_REFIT_AFTER = 64
"""Steps between two fits, fewer at first; one costs about as much as a step's bookkeeping."""
_EVERY = 4
"""Of steps of answers alone, which resemble each other, one in so many is looked at."""
_MIN_STEPS = 6
_DOUBT = (1e-9, 1e-6, 1e-3, 1e-4, 1e-4)
"""Columns are scaled to length 1; what explains a step as well as another does counts for the one that is doubted
less: steps of one row say nothing of what rows cost."""


@dataclass(frozen=True, slots=True)
class StepSize:
    """What a step's time depends on."""

    num_tokens: float
    num_rows: float
    keys_read: float
    """Positions that its rows attend to, each row's once: what answers read."""
    keys_compared: float = 0.0
    """(query, key) pairs of its prompts."""

    @classmethod
    def of(cls, step: Step) -> StepSize:
        work = step.schedule.work
        read = sum([item.start for item in work]) + step.num_tokens
        compared = 0.0
        for item in reversed(work):
            if item.num_tokens == 1:
                break
            compared += item.num_tokens * (item.start + item.num_tokens / 2)
        return cls(step.num_tokens, len(work), read, compared)


class StepTimes:
    """Seconds = a + b · tokens + c · rows + d · keys read + e · keys compared; none of them negative."""

    def __init__(self) -> None:
        self._seen: dict[int, deque[tuple[float, ...]]] = {}
        """Order of magnitude of the tokens → (1, the four figures, seconds) of the last steps."""
        self._factors = [0.0] * 5
        self._num_new = 0
        self._refit_after = 1
        self._num_alike = 0

    def observe(self, step: Step, seconds: float) -> None:
        work = step.schedule.work
        if seconds <= 0 or not work:
            return
        if work[-1].num_tokens == 1:
            self._num_alike += 1
            if self._num_alike % _EVERY:
                return
        size = StepSize.of(step)
        magnitude = max(_SMALL, step.num_tokens.bit_length())
        seen = self._seen.setdefault(magnitude, deque(maxlen=_KEPT_PER_SIZE))
        seen.append((1.0, size.num_tokens, size.num_rows, size.keys_read, size.keys_compared, seconds))
        self._num_new += 1

    @property
    def is_known(self) -> bool:
        return sum(map(len, self._seen.values())) >= _MIN_STEPS

    def predict(self, size: StepSize) -> float:
        """Seconds; 0 before anything is known."""
        base, token, row, read, compared = self._fitted()
        return (
            base
            + token * size.num_tokens
            + row * size.num_rows
            + read * size.keys_read
            + compared * size.keys_compared
        )

    def row_seconds(self, keys_read: float) -> float:
        """What one more answer costs that attends to so many positions."""
        _, token, row, read, _ = self._fitted()
        return token + row + read * keys_read

    @property
    def key_cost(self) -> float:
        """What comparing a prompt's token with one more key costs, in tokens."""
        _, token, _, _, compared = self._fitted()
        return compared / token if token > 0 else 0.0

    def prompt_seconds(self, position: int, num_tokens: int) -> float:
        """What so many tokens of a prompt, from `position` on, take beside others."""
        _, token, row, read, compared = self._fitted()
        each = token + read + compared * (position + num_tokens / 2)
        return row + read * position + each * num_tokens

    def prompt_tokens_in(self, seconds: float, position: int) -> int:
        """How many tokens of a prompt, from `position` on, are computed in that time beside others."""
        _, token, row, read, compared = self._fitted()
        left = seconds - row - read * position
        if left <= 0:
            return 0
        linear, square = token + read + compared * position, compared / 2
        if square > 0:
            # The larger form of the root loses no digits where the square is tiny.
            return int(2 * left / (linear + math.sqrt(linear * linear + 4 * square * left)))
        return int(left / linear) if linear > 0 else 1 << 30

    def _fitted(self) -> list[float]:
        if self._num_new and self._num_new >= self._refit_after:
            self._refit_after = min(_REFIT_AFTER, 2 * self._refit_after)
            self._fit()
        return self._factors

    def _fit(self) -> None:
        """Least squares of the relative errors."""
        self._num_new = 0
        samples = [sample for seen in self._seen.values() for sample in seen]
        weights = [1.0 / sample[-1] for sample in samples]
        columns = [list(map(mul, column, weights)) for column in list(zip(*samples, strict=True))[:-1]]
        scales = [math.sqrt(sum(map(mul, column, column))) or 1.0 for column in columns]
        columns = [[value / scale for value in column] for column, scale in zip(columns, scales, strict=True)]
        gram = [[sum(map(mul, one, other)) for other in columns] for one in columns]
        for index, doubt in enumerate(_DOUBT):
            gram[index][index] += doubt
        solved = _least_squares(gram, [sum(column) for column in columns])
        self._factors = [factor / scale for factor, scale in zip(solved, scales, strict=True)]


def _least_squares(gram: list[list[float]], right: list[float]) -> list[float]:
    """Factors ≥ 0: what comes out negative is left out, the most negative first. One alone never does, since what
    is fitted is positive."""
    used = list(range(len(right)))
    while True:
        solved = _solve([[gram[i][j] for j in used] for i in used], [right[i] for i in used])
        lowest = min(range(len(used)), key=solved.__getitem__)
        if solved[lowest] >= 0:
            break
        del used[lowest]
    factors = [0.0] * len(right)
    for index, factor in zip(used, solved, strict=True):
        factors[index] = factor
    return factors


def _solve(rows: list[list[float]], right: list[float]) -> list[float]:
    """A symmetric, positive definite system."""
    size = len(right)
    rows = [[*row, value] for row, value in zip(rows, right, strict=True)]
    for pivot in range(size):
        for other in range(pivot + 1, size):
            part = rows[other][pivot] / rows[pivot][pivot]
            rows[other] = [
                value - part * above for value, above in zip(rows[other], rows[pivot], strict=True)
            ]
    solved = [0.0] * size
    for pivot in range(size - 1, -1, -1):
        known = sum(map(mul, rows[pivot][pivot + 1 : size], solved[pivot + 1 :]))
        solved[pivot] = (rows[pivot][size] - known) / rows[pivot][pivot]
    return solved
