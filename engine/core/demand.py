"""What requests ask for on average, and how many of that kind a second the engine can sustain.

Fed by `scheduler` with every finished request, read by `load`. Knows no line and no present state.
"""

from __future__ import annotations

from engine.core.config import CoreConfig
from engine.core.kv import KVManager
from engine.core.request import Request
from engine.core.steptime import StepSize, StepTimes

_MEMORY = 1 / 64
"""Weight of the latest request in the means."""


class Demand:
    def __init__(self) -> None:
        self.num_prompt_tokens = 0.0
        self.num_uncached_tokens = 0.0
        self.num_output_tokens = 0.0
        self._num_seen = 0

    def finished(self, request: Request) -> None:
        """Requests that never had a row, or never answered, say nothing of what answering costs."""
        if not request.was_admitted or request.num_output_tokens == 0:
            return
        self._num_seen += 1
        memory = max(_MEMORY, 1 / self._num_seen)
        uncached = request.num_prompt_tokens - (request.num_cached_tokens or 0)
        self.num_prompt_tokens += memory * (request.num_prompt_tokens - self.num_prompt_tokens)
        self.num_uncached_tokens += memory * (uncached - self.num_uncached_tokens)
        self.num_output_tokens += memory * (request.num_output_tokens - self.num_output_tokens)

    def sustainable_rps(self, times: StepTimes, kv: KVManager, config: CoreConfig) -> float:
        """Requests a second with every row in use, or all pages; 0 as long as nothing is known.

        With `rows` answers running, `rows / output` of them end at every step and as many prompts must be read.
        """
        if not (self._num_seen and times.is_known):
            return 0.0
        prompt, uncached = self.num_prompt_tokens, self.num_uncached_tokens
        output = max(1.0, self.num_output_tokens)
        pages = max(1, kv.peak_pages(round(prompt + output)))
        rows = max(1, min(config.max_num_seqs, kv.pool.num_blocks // pages))
        reading = rows / output
        size = StepSize(
            num_tokens=rows + reading * uncached,
            num_rows=rows + reading,
            keys_read=rows * (prompt + output / 2),
            keys_compared=reading * uncached * prompt / 2,
        )
        step_s = times.predict(size)
        return reading / step_s if step_s > 0 else 0.0
