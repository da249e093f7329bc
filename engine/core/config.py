"""What the core needs to know, resolved once by the process main; the core reads it and never changes it.

Place in the path: the process main builds the runner, learns the page pool's size from it, makes a
`CoreConfig` and hands it to `Loop`. Knows no flags, no defaults of the command line and no model.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.contract import KVLayout


@dataclass(frozen=True, slots=True)
class CoreConfig:
    """Limits and switches of one core. Every queue, batch and length has its bound here."""

    layout: KVLayout
    max_model_len: int
    """Prompt plus answer, in tokens."""
    max_num_seqs: int
    """Rows of the runner's tables: requests that run at once."""
    max_num_batched_tokens: int
    """The token budget of one step."""
    eos_token_ids: tuple[int, ...]
    max_num_mixed_tokens: int | None = None
    """An efficient size of a step in which answers run too (`policy.step_budget`); None: any is."""
    num_workers: int = 1
    """API processes; every one of them hears from the core at least once a heartbeat."""
    max_num_queued_reqs: int = 1024
    """Waiting requests beyond those that free rows could take at once."""
    max_num_queued_tokens: int = 1_048_576
    """Prompt tokens that may wait; a lone request may exceed it."""
    queue_timeout_s: float = 60.0
    """A request that got no row for this long, or none again, is told that the server is overloaded."""
    steps_in_flight: int = 2
    """2: step N+1 is scheduled and launched while N runs. 1: one after the other."""
    closes_late: bool = False
    """Wait with scheduling step N+1 until N is about to end (`closing`): for runners that compute beside the host."""
    enable_prefix_caching: bool = True
    swaps: bool = False
    """Preempted requests leave their pages in host memory, where there is room, instead of computing them again."""
    debug_invariants: bool = False
    """Run `check_integrity()` after every step instead of only when idle."""
    heartbeat_s: float = 0.5

    def __post_init__(self) -> None:
        layout = self.layout
        assert layout.groups, "a model has layers"
        assert all(group.window is None or group.window > 0 for group in layout.groups)
        assert 0 < self.max_num_seqs <= self.max_num_batched_tokens, "every running row needs a token a step"
        assert (
            self.max_num_mixed_tokens is None or 0 < self.max_num_mixed_tokens <= self.max_num_batched_tokens
        )
        assert self.steps_in_flight in (1, 2)
        assert layout.num_host_blocks or not self.swaps, "there is nowhere to swap to"
        positive = (
            *(layout.block_size, layout.num_blocks, self.max_model_len, self.num_workers),
            *(self.max_num_queued_reqs, self.max_num_queued_tokens, self.queue_timeout_s, self.heartbeat_s),
        )
        assert min(positive) > 0, positive
