"""How many tokens a call will need, without a tokenizer: bytes divided by what a token has cost so far.

Learns per served model from settled calls. Limits use this, and the cap of a prompt where no engine applies it; money is held at the hard upper bound. It
does not know where the bytes come from.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass

__all__ = ["TokenEstimator"]

MODELS_MAX = 1000
DECAY = 0.98
"""Weight of the past per settled call: about the last 50 calls count."""
BYTES_PER_TOKEN_START = 1.0
BYTES_PER_TOKEN_MAX = 16.0
BYTES_PER_TOKEN_USUAL = 4.0
"""Of JSON around English text: what a refusal is judged by as long as nothing is learned, which it would prevent."""
TEMPLATE_TOKENS = 8
TEMPLATE_TOKENS_PER_MESSAGE = 6


@dataclass(slots=True)
class _Learned:
    prompt_bytes: float = 0.0
    prompt_tokens: float = 0.0
    output_tokens: float = 0.0
    calls: float = 0.0


class TokenEstimator:
    def __init__(self, models_max: int = MODELS_MAX) -> None:
        self._models_max = models_max
        self._learned: OrderedDict[str, _Learned] = OrderedDict()

    def estimate(self, model: str, prompt_bytes: int, num_messages: int, output_max: int) -> int:
        """Prompt and output together; `output_max` is what the caller asked for, or the route's default."""
        overhead = TEMPLATE_TOKENS + TEMPLATE_TOKENS_PER_MESSAGE * num_messages
        prompt = math.ceil(prompt_bytes / self.bytes_per_token(model))
        return prompt + overhead + min(output_max, self.mean_output_tokens(model, output_max))

    def learn(self, model: str, prompt_bytes: int, prompt_tokens: int, output_tokens: int) -> None:
        """From a call that ended by itself; a cancelled one would teach an output that nobody wanted."""
        if prompt_bytes <= 0 or prompt_tokens <= 0:
            return
        state = self._learned.setdefault(model, _Learned())
        self._learned.move_to_end(model)
        if len(self._learned) > self._models_max:
            self._learned.popitem(last=False)
        state.prompt_bytes = state.prompt_bytes * DECAY + prompt_bytes
        state.prompt_tokens = state.prompt_tokens * DECAY + prompt_tokens
        state.output_tokens = state.output_tokens * DECAY + output_tokens
        state.calls = state.calls * DECAY + 1

    def prompt_tokens(self, model: str, prompt_bytes: int) -> int:
        """The likely size, where the limits' estimate before anything is learned is the largest one."""
        usual = model not in self._learned
        return math.ceil(prompt_bytes / (BYTES_PER_TOKEN_USUAL if usual else self.bytes_per_token(model)))

    def bytes_per_token(self, model: str) -> float:
        state = self._learned.get(model)
        if state is None:
            return BYTES_PER_TOKEN_START
        measured = state.prompt_bytes / state.prompt_tokens
        return min(BYTES_PER_TOKEN_MAX, max(BYTES_PER_TOKEN_START, measured))

    def mean_output_tokens(self, model: str, unknown: int) -> int:
        state = self._learned.get(model)
        return unknown if state is None else math.ceil(state.output_tokens / state.calls)
