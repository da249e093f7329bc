"""The pieces that grammars are written with: literals, sets of characters, alternatives.

Sets are sorted tuples of code point ranges, both ends included. Everything but letters and digits is written as its
code, so nothing that a caller wrote can be taken for syntax.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Ranges = tuple[tuple[int, int], ...]

LAST = 0x10FFFF
SURROGATES: Ranges = ((0xD800, 0xDFFF),)
NEEDS_ESCAPE: Ranges = ((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C))
"""Cannot stand for themselves inside a JSON string."""


def literal(text: str) -> str:
    return '"' + "".join(map(_char, text)) + '"' if text else '""'


def char_class(ranges: Ranges) -> str:
    """Large sets by what they leave out: the compiler is a hundred times faster with those."""
    negated = bool(ranges) and ranges[-1][1] == LAST and ranges != ((0, LAST),)
    parts = (
        _char(chr(first)) if first == last else f"{_char(chr(first))}-{_char(chr(last))}"
        for first, last in (complement(ranges) if negated else ranges)
    )
    return f"[{'^' if negated else ''}{''.join(parts)}]"


def alternatives(options: Iterable[str]) -> str:
    """In parentheses if there are several."""
    listed = list(dict.fromkeys(options))
    assert listed, "a choice of nothing"
    return listed[0] if len(listed) == 1 else "(" + " | ".join(listed) + ")"


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sorted, without overlaps."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def complement(ranges: Ranges) -> Ranges:
    gaps, start = [], 0
    for first, last in ranges:
        if first > start:
            gaps.append((start, first - 1))
        start = last + 1
    if start <= LAST:
        gaps.append((start, LAST))
    return tuple(gaps)


def without(ranges: Ranges, others: Ranges) -> Ranges:
    return complement(union([*complement(ranges), *others]))


def of_chars(chars: str | Sequence[int]) -> Ranges:
    codes = [ord(char) if isinstance(char, str) else char for char in chars]
    return union((code, code) for code in codes)


def _char(char: str) -> str:
    code = ord(char)
    if char.isascii() and char.isalnum():
        return char
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
