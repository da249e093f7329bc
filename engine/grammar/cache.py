"""Outcomes of compilation, the least recently used forgotten first, bounded in bytes.

Refusals are kept as well: a grammar that took all it may and failed need not try again. Knows no requests: who uses
a compiled grammar keeps it alive, here or not.
"""

from __future__ import annotations

from collections import OrderedDict

from engine.grammar.compiler import Key, Outcome

_ENTRY_BYTES = 512
"""What an entry takes beside its texts and its grammar, roughly."""


class GrammarCache:
    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[Key, tuple[Outcome, int]] = OrderedDict()
        self.num_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Outcome | None:
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[0]

    def put(self, outcome: Outcome) -> None:
        """Keep it, unless it is larger than the whole cache."""
        size = _ENTRY_BYTES + len(outcome.key[1]) + outcome.size
        if size > self._max_bytes or outcome.key in self._entries:
            return
        self._entries[outcome.key] = (outcome, size)
        self.num_bytes += size
        while self.num_bytes > self._max_bytes:
            _, (_, freed) = self._entries.popitem(last=False)
            self.num_bytes -= freed
