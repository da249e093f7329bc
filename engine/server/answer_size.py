"""How much one answer may name, as far as its request alone tells.

An answer that is not streamed lies in the API process until its last token, and an echo stands before each answer of a
prompt. What a caller asks for beyond the bounds is refused; a length that nobody asked for ends at them, and so does a
text whose tokens are longer than tokens are: `reply` ends that. Beside `admission`, which knows what fits the model's
context.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.server.errors import ApiError, invalid
from engine.server.protocol import CompletionRequest, GenerationRequest

MAX_ANSWER_TOKENS = 1 << 20
"""Of all choices of one answer together, with the prompts that they repeat. Some 5 MiB of text as a rule."""
MAX_ANSWER_BYTES = 16 << 20
"""Of the text of all choices of one answer that is not streamed, and of what it repeats: a token has up to a hundred bytes
where somebody makes it so."""
MAX_ANSWER_LOGPROBS = 1 << 19
"""A token's own counts twice. That many take some 90 MiB until they are written, and up to 50 MiB as text."""


@dataclass(frozen=True, slots=True)
class Room:
    """For each choice of an answer."""

    tokens: int
    over: ApiError
    """For who asks for more."""


def room(request: GenerationRequest, prompts: Sequence[Sequence[int]]) -> Room | None:
    """None: as much as fits the context, since it is streamed. Raises `ApiError` for prompts that are too much alone."""
    num_choices = request.n * len(prompts)
    repeats = request.echo or (request.return_token_ids and isinstance(request, CompletionRequest))
    num_repeated = request.n * sum(map(len, prompts)) if repeats else 0
    left = (MAX_ANSWER_TOKENS - num_repeated) // num_choices
    if left < 1:
        name = "echo" if request.echo else "return_token_ids"
        message = f"At most {MAX_ANSWER_TOKENS} tokens of prompts in one answer ('n' × prompts)."
        raise invalid(message, name)
    if request.stream:
        return None
    tokens = Room(left, _over("max_tokens", f"{MAX_ANSWER_TOKENS} tokens", "'n' × prompts × 'max_tokens'"))
    if request.num_logprobs is None:
        return tokens
    each = 2 + request.num_logprobs
    product = "'n' × prompts × 'max_tokens' × (2 + alternatives)"
    over = _over("logprobs", f"{MAX_ANSWER_LOGPROBS} log-probabilities", product)
    logprobs = Room(MAX_ANSWER_LOGPROBS // (num_choices * each), over)
    return min(tokens, logprobs, key=lambda one: one.tokens)


def check_echoes(n: int, echoes: Iterable[str]) -> None:
    """Raises `ApiError` for texts that are too much to stand before `n` answers each."""
    if n * sum(map(num_bytes, echoes)) > MAX_ANSWER_BYTES:
        raise invalid(f"At most {MAX_ANSWER_BYTES} bytes of prompts in one answer ('n' × prompts).", "echo")


def num_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _over(param: str, most: str, product: str) -> ApiError:
    return invalid(f"At most {most} in one answer that is not streamed ({product}): set 'stream'.", param)
