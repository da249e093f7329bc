"""Regular expressions of the kind that JSON schemas use, read by a parser of our own and written as EBNF.

Served is what means the same in ECMAScript and in Python: sets, groups, alternatives, repetition, anchors at the ends.
Where the two differ (`\\w` beyond ASCII) the grammar holds what both accept. Look-around, back-references, word
boundaries and flags are refused. Lazy quantifiers are read as greedy ones: the language is the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.text.schema.ebnf import (
    LAST,
    NEEDS_ESCAPE,
    SURROGATES,
    Ranges,
    alternatives,
    char_class,
    complement,
    literal,
    of_chars,
    union,
    without,
)

MAX_DEPTH = 32
MAX_REPEATS = 10_000
SAFE: Ranges = without(((0x20, LAST),), union([*NEEDS_ESCAPE, *SURROGATES]))
"""What may stand for itself in a JSON string."""

_QUANTIFIER = re.compile(r"\{(\d{1,6})(?:(,)(\d{1,6})?)?\}")
_ENDS_ONLY = "an anchor may stand at the ends only"
_GROUP = re.compile(r"\?(?::|P?<[A-Za-z_]\w{0,63}>)")
_HEX = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}")
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "0": 0}
_LINE_ENDS = of_chars("\n\r\u2028\u2029")
_DIGITS = of_chars("0123456789")
_WORD = union([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
_SPACE = of_chars(" \t\n\r\f\v")
_WIDE_SPACE = union(
    [
        *_SPACE,
        (28, 31),
        (133, 133),
        (160, 160),
        (5760, 5760),
        (8192, 8207),
        (8232, 8239),
        (8287, 8292),
        (12288, 12288),
        (65279, 65279),
    ]
)
_BEYOND_ASCII = ((0x80, LAST),)
_SHORT = {"d": (_DIGITS, union([*_DIGITS, *_BEYOND_ASCII])), "w": (_WORD, union([*_WORD, *_BEYOND_ASCII]))}
_SHORT |= {"s": (_SPACE, _WIDE_SPACE)}
"""Letter → what surely belongs to the set, and what may."""


class RegexError(Exception):
    """The expression is not served, or not one."""


@dataclass(frozen=True, slots=True)
class Chars:
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Seq:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alt:
    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    node: Node
    least: int
    most: int | None


Node = Chars | Seq | Alt | Repeat


@dataclass(frozen=True, slots=True)
class Branch:
    """An alternative of the whole expression."""

    node: Node
    from_start: bool
    to_end: bool


def parse(pattern: str) -> tuple[Branch, ...]:
    """Raises `RegexError` naming the place."""
    return _Parser(pattern).branches()


def regex_grammar(pattern: str) -> str:
    """EBNF of the texts that the expression matches as a whole, whatever its anchors."""
    return "root ::= " + alternatives(render(branch.node, in_json=False) for branch in parse(pattern))


def json_string(pattern: str) -> str:
    """EBNF of the JSON strings in which the expression is found, quotes included."""
    padding = char_class(SAFE) + "*"
    options = []
    for branch in parse(pattern):
        parts = [
            "" if branch.from_start else padding,
            render(branch.node, in_json=True),
            "" if branch.to_end else padding,
        ]
        options.append(" ".join(part for part in parts if part))
    return f"{literal(chr(34))} {alternatives(options)} {literal(chr(34))}"


def render(node: Node, *, in_json: bool) -> str:
    match node:
        case Chars():
            return _chars(node.ranges, in_json)
        case Seq():
            return _sequence(node.parts, in_json)
        case Alt():
            return alternatives(render(option, in_json=in_json) for option in node.options)
        case Repeat():
            inner = render(node.node, in_json=in_json)
            if not (isinstance(node.node, Chars) and inner.startswith("[")):
                inner = f"({inner})"
            return f"{inner}{{{node.least},{'' if node.most is None else node.most}}}"


def _sequence(parts: tuple[Node, ...], in_json: bool) -> str:
    """Characters in a row become one literal."""
    written, text = [], ""
    for part in parts:
        if isinstance(part, Chars) and len(part.ranges) == 1 and part.ranges[0][0] == part.ranges[0][1]:
            char = chr(part.ranges[0][0])
            text += _escaped(char) if in_json else char
            continue
        if text:
            written.append(literal(text))
            text = ""
        written.append(render(part, in_json=in_json))
    if text or not written:
        written.append(literal(text))
    return " ".join(written)


def _chars(ranges: Ranges, in_json: bool) -> str:
    """Inside a JSON string, those that need no escape if there are any: masks of the others cost a hundred times
    more."""
    usable = without(ranges, SURROGATES)
    if not in_json:
        return char_class(usable)
    safe = without(usable, NEEDS_ESCAPE)
    if safe:
        return char_class(safe)
    codes = [code for first, last in usable for code in range(first, last + 1)]
    return alternatives(literal(_escaped(chr(code))) for code in codes)


def _escaped(char: str) -> str:
    """As it stands in a JSON string."""
    short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return short.get(char) or (char if ord(char) >= 0x20 else f"\\u{ord(char):04x}")


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0

    def branches(self) -> tuple[Branch, ...]:
        found = []
        while True:
            from_start = self._take("^")
            node = self._sequence(0)
            found.append(Branch(node, from_start, self._take("$")))
            if self._at == len(self._text):
                return tuple(found)
            if not self._take("|"):
                is_anchor = self._text[self._at] in "^$" or self._text[self._at - 1] == "$"
                raise self._error(_ENDS_ONLY if is_anchor else "a parenthesis was never opened")

    def _alternatives(self, depth: int) -> Node:
        options = [self._sequence(depth)]
        while self._take("|"):
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Alt(tuple(options))

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)^$":
            parts.append(self._quantified(self._atom(depth)))
        return parts[0] if len(parts) == 1 else Seq(tuple(parts))

    def _atom(self, depth: int) -> Node:
        char = self._text[self._at]
        if char in "*+?":
            raise self._error("there is nothing to repeat")
        self._at += 1
        if char == "(":
            return self._group(depth + 1)
        if char == "[":
            return self._set()
        if char == ".":
            return Chars(complement(_LINE_ENDS))
        if char == "\\":
            surely, _ = self._escape(in_set=False)
            return Chars(surely)
        return Chars(of_chars(char))

    def _group(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self._error(f"groups are nested deeper than {MAX_DEPTH}")
        if self._text.startswith("?", self._at):
            head = _GROUP.match(self._text, self._at)
            if head is None:
                raise self._error("look-around and flags are not supported")
            self._at = head.end()
        node = self._alternatives(depth)
        if not self._take(")"):
            inside = self._at < len(self._text) and self._text[self._at] in "^$"
            raise self._error(_ENDS_ONLY if inside else "a parenthesis is not closed")
        return node

    def _quantified(self, node: Node) -> Node:
        least: int = 1
        most: int | None = 1
        found = _QUANTIFIER.match(self._text, self._at)
        if self._text.startswith("{,", self._at):
            raise self._error("'{,' means different things to different readers: write {0,")
        if found:
            self._at = found.end()
            least = int(found[1])
            most = least if found[2] is None else None if found[3] is None else int(found[3])
        elif self._take("*"):
            least, most = 0, None
        elif self._take("+"):
            most = None
        elif self._take("?"):
            least = 0
        else:
            return node
        if max(least, most or 0) > MAX_REPEATS or (most is not None and most < least):
            raise self._error(f"repetitions must be between 0 and {MAX_REPEATS}, the smaller number first")
        self._take("?")
        if self._text[self._at : self._at + 1] in ("*", "+", "?") or _QUANTIFIER.match(self._text, self._at):
            raise self._error("a repetition is repeated: use a group")
        return Repeat(node, least, most)

    def _set(self) -> Node:
        negated = self._take("^")
        ranges: list[tuple[int, int]] = []
        first = True
        while first or not self._take("]"):
            if self._at >= len(self._text) or self._text.startswith("[:", self._at):
                raise self._error("a set is not closed, or holds a named class")
            if first and self._text[self._at] == "]":
                raise self._error("an empty set; write \\] for the bracket")
            first = False
            ranges += self._set_item(negated)
        found = union(ranges)
        if negated:
            found = complement(found)
        if not without(found, SURROGATES):
            raise self._error("a set without characters")
        return Chars(found)

    def _set_item(self, negated: bool) -> Ranges:
        """A character, a range or a class. Of a class what may belong to it, if it is to be excluded."""
        start = self._set_char(negated)
        is_range = self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at)
        if not is_range or len(start) != 1 or start[0][0] != start[0][1]:
            return start
        self._at += 1
        end = self._set_char(negated)
        if len(end) != 1 or end[0][0] != end[0][1] or end[0][0] < start[0][0]:
            raise self._error("a range of characters must go upwards, from one to one")
        return ((start[0][0], end[0][0]),)

    def _set_char(self, negated: bool) -> Ranges:
        if self._at >= len(self._text):
            raise self._error("a set is not closed")
        char = self._text[self._at]
        self._at += 1
        if char != "\\":
            return of_chars(char)
        surely, perhaps = self._escape(in_set=True)
        return perhaps if negated else surely

    def _escape(self, *, in_set: bool) -> tuple[Ranges, Ranges]:
        """After a backslash: what surely belongs to it, and what may."""
        code = _HEX.match(self._text, self._at)
        if code:
            self._at = code.end()
            number = int(code[1] or code[2] or code[3], 16)
            if number > LAST or 0xD800 <= number <= 0xDFFF:
                raise self._error("there is no such character")
            return of_chars([number]), of_chars([number])
        char = self._text[self._at : self._at + 1]
        self._at += 1
        if char.lower() in _SHORT and char:
            surely, perhaps = _SHORT[char.lower()]
            return (surely, perhaps) if char.islower() else (complement(perhaps), complement(surely))
        if char in _CONTROLS and char:
            return of_chars([_CONTROLS[char]]), of_chars([_CONTROLS[char]])
        if in_set and char == "b":
            return of_chars([8]), of_chars([8])
        if not char or char.isalnum():
            raise self._error(f"\\{char} is not supported")
        return of_chars(char), of_chars(char)

    def _take(self, char: str) -> bool:
        if self._text.startswith(char, self._at):
            self._at += 1
            return True
        return False

    def _error(self, message: str) -> RegexError:
        return RegexError(f"{message} (at character {self._at})")
