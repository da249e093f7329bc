"""What an engine says beside a stream so that another one can go on with it: comment lines, taken out on the way.

The lines stand in front of an event's data, in the same block: `: resume OBJECT` once, `: ids INDEX ID …` with the
tokens that brought the event, `: end INDEX` with the last. Whoever passes whole blocks on knows the ids of exactly what
was passed. It does not know what an id means, nor who goes on.
"""

from __future__ import annotations

from array import array

__all__ = ["Continuation"]

IDS_MAX = 1 << 16
"""Kept for one answer (256 KiB); a longer one cannot be continued."""
_RESUME, _IDS, _END = b": resume ", b": ids ", b": end "
_FIRST_IDS = _IDS + b"0 "


class Continuation:
    """Of one answer with one choice, over all the engines that worked on it."""

    __slots__ = ("_start", "has_ended", "ids", "is_complete")

    def __init__(self) -> None:
        self._start: bytes | None = None
        self.ids = array("I")
        self.has_ended = False
        """Its finish reason was passed on."""
        self.is_complete = True
        """Every id of what was passed on is here."""

    @property
    def is_possible(self) -> bool:
        return self._start is not None and self.is_complete

    def strip(self, blocks: bytes) -> bytes:
        """Whole blocks, without the lines. A block of nothing else vanishes."""
        if blocks.startswith(_FIRST_IDS) and blocks.find(b"\n\n") == len(blocks) - 2:
            end = blocks.find(b"\n")
            if blocks[end + 1 : end + 2] == b"d":  # one block with one line: what a token usually brings
                self._keep(blocks[len(_FIRST_IDS) : end].split())
                return blocks[end + 1 :]
        elif not blocks.startswith(b":") and b"\n\n:" not in blocks:
            return blocks
        passed = []
        for block in blocks.split(b"\n\n"):
            rest = block
            while rest.startswith(b":"):
                line, _, rest = rest.partition(b"\n")
                self._note(line)
            if rest:
                passed.append(rest)
        return b"\n\n".join(passed) + b"\n\n" if passed else b""

    def body(self, request: bytes, resumed_from: int) -> bytes:
        """What another engine is asked: to go on with the answer to `request`, as attempt `resumed_from` left it."""
        assert self._start is not None, "ask is_possible first"
        ids, ended = b",".join(map(b"%d".__mod__, self.ids)), b"0" if self.has_ended else b""
        return b'{"start":%b,"outputs":[[%b]],"ended":[%b],"resumed_from":%d,"request":%b}' % (
            self._start,
            ids,
            ended,
            resumed_from,
            request,
        )

    def _keep(self, ids: list[bytes]) -> None:
        if len(self.ids) + len(ids) <= IDS_MAX:
            self.ids.extend(map(int, ids))
        else:
            self.is_complete = False

    def _note(self, line: bytes) -> None:
        if line.startswith(_IDS):
            self._keep(line[len(_IDS) :].split()[1:])
        elif line.startswith(_RESUME):
            self._start = line[len(_RESUME) :]
        elif line.startswith(_END):
            self.has_ended = True
