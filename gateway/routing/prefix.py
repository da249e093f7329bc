"""Which beginnings of prompts a replica has likely cached: chained hashes of chunks of text, forgotten in time. Pure.

The gateway has no tokenizer, so a prompt is bytes in chunks of `CHUNK_BYTES`; a chunk's hash covers all before it,
and starts from the tenant's salt, so that two tenants never share one, as in the engines' own caches. It knows no
request and no load; time is an argument.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

__all__ = ["NO_MATCH", "Match", "PrefixIndex", "chain_of"]

CHUNK_BYTES = 256
CHUNKS_MAX = 512
"""Of one prompt; what is behind them counts as never seen."""
DIGEST_BYTES = 8
ENTRY_BYTES = 256
"""What a hash costs in memory, with its place and its time."""
INDEX_BYTES_MAX = 8 << 20
"""Of one replica: 8 MB of prompts."""
AGE_S_MAX = 600.0
"""A replica under load has evicted by then what nobody asked for again."""
SETTLING_S = 5.0
"""A prompt that came so short a time ago may still be in the making."""
STALE_SHARE = 0.5

Chain = Sequence[bytes]


def chain_of(salt: str, prompt: bytes) -> Chain:
    """One hash for each whole chunk of the prompt, each of all the text up to its end."""
    link, chain = salt.encode()[:64], []
    for at in range(0, min(len(prompt) - CHUNK_BYTES + 1, CHUNKS_MAX * CHUNK_BYTES), CHUNK_BYTES):
        link = blake2b(prompt[at : at + CHUNK_BYTES], digest_size=DIGEST_BYTES, key=link).digest()
        chain.append(link)
    return chain


@dataclass(frozen=True, slots=True)
class Match:
    """How much of a prompt's beginning a replica should have, and when the last of it was used there."""

    matched_bytes: int
    used_at: float


NO_MATCH = Match(0, 0.0)


class PrefixIndex:
    """Of one replica. Hashes in the order of their last use, the start of a prompt after its end: the replica evicts
    its cache from the ends too."""

    __slots__ = ("_entries_max", "_used")

    def __init__(self, bytes_max: int = INDEX_BYTES_MAX) -> None:
        self._entries_max = bytes_max // ENTRY_BYTES
        self._used: OrderedDict[bytes, float] = OrderedDict()

    @property
    def num_bytes(self) -> int:
        return len(self._used) * ENTRY_BYTES

    def match(self, chain: Chain, now: float) -> Match:
        chunks, used_at, oldest = 0, 0.0, now - AGE_S_MAX
        for link in chain:
            at = self._used.get(link)
            if at is None or at < oldest:
                break
            chunks, used_at = chunks + 1, at
        return Match(chunks * CHUNK_BYTES, used_at) if chunks else NO_MATCH

    def record(self, chain: Chain, now: float) -> None:
        """The prompt goes to the replica, which will have all of it."""
        used = self._used
        for link in reversed(chain):
            used[link] = now
            used.move_to_end(link)
        self._forget_before(now - AGE_S_MAX)
        while len(used) > self._entries_max:
            used.popitem(last=False)

    def correct(
        self, match: Match, prompt_bytes: int, prompt_tokens: int, cached_tokens: int, recorded_at: float
    ) -> None:
        """The replica said how much it really had. If that is far less than was thought, it has evicted what was last
        used then, and all that was used before it."""
        if prompt_tokens <= 0 or recorded_at - match.used_at < SETTLING_S:
            return
        if cached_tokens / prompt_tokens < STALE_SHARE * match.matched_bytes / max(prompt_bytes, 1):
            self._forget_before(match.used_at, inclusive=True)

    def clear(self) -> None:
        """The replica has started anew."""
        self._used.clear()

    def _forget_before(self, oldest: float, *, inclusive: bool = False) -> None:
        used = self._used
        while used:
            at = used[next(iter(used))]
            if at > oldest or (at == oldest and not inclusive):
                return
            used.popitem(last=False)
