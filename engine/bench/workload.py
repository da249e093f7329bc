"""What a benchmark sends: prompts of exact length from a seed, and when each is due. Pure; knows no HTTP."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Workload:
    """Random token ids, as a server's prefix cache and a model's cost see any text."""

    num_requests: int
    prompt_tokens: int
    """Tokens of a prompt beside the shared prefix."""
    output_tokens: int
    seed: int = 0
    shared_prefix_tokens: int = 0
    """Tokens that all prompts begin with."""
    vocab: tuple[int, int] = (1000, 100_000)
    """Token ids are drawn from this half-open range: ordinary ones in the vocabularies that matter."""

    def prompt(self, index: int) -> list[int]:
        """The same for the same workload and index, whatever process makes it. Workloads of another size share nothing, so
        that a run never finds its prompts in the server's prefix cache because of one before it."""
        lengths = (
            f"{self.num_requests} x {self.shared_prefix_tokens}+{self.prompt_tokens}/{self.output_tokens}"
        )
        prefix = random.Random(f"{self.seed} {lengths} prefix")
        own = random.Random(f"{self.seed} {lengths} {index}")
        return [prefix.randrange(*self.vocab) for _ in range(self.shared_prefix_tokens)] + [
            own.randrange(*self.vocab) for _ in range(self.prompt_tokens)
        ]

    def arrivals(self, rate: float | None) -> list[float]:
        """Seconds after the start at which each request is due: a Poisson process of `rate` per second, or
        all at once (a closed loop then limits how many run)."""
        return [0.0] * self.num_requests if rate is None else arrivals(self.num_requests, rate, self.seed)


def arrivals(count: int, rate: float, seed: int | str) -> list[float]:
    """Seconds after the start of the arrivals of a Poisson process, from the seed, stretched so that the last comes at
    `count / rate`: as `vllm bench serve` draws them, so that the offered rate is `rate` whatever the draw."""
    draw = random.Random(f"{seed} arrivals")
    times = list(accumulate(draw.expovariate(rate) for _ in range(count)))
    return [count / rate * time / times[-1] for time in times]
