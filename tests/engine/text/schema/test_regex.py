"""Expressions: what their grammars hold is matched by Python too, and what means different things is refused."""

from __future__ import annotations

import json
import random
import re

import pytest

from engine.text.schema import RegexError, regex_grammar
from engine.text.schema.regex import MAX_REPEATS, json_string, parse
from tests.grammars import accepts, bound, walk
from tests.seeds import seed_of_test

MATCHING: dict[str, tuple[list[str], list[str]]] = {
    "a": (["a"], ["", "b", "aa"]),
    "a|bc|": (["a", "bc", ""], ["abc", "b"]),
    "a*b+c?": (["b", "aabbc", "ab"], ["a", "ac"]),
    "a{2}b{1,3}c{2,}": (["aabcc", "aabbbcccc"], ["abcc", "aabbbbcc", "aabc"]),
    "(?:ab|c){2,3}": (["abc", "ccc"], ["ab", "cccc"]),
    "(?P<year>\\d{4})-(?<month>\\d{2})": (["2024-12"], ["24-12"]),
    "[a-c_\\-x]+": (["ab_-x"], ["d", ""]),
    "[^a-c]": (["d", "é", '"', "\n"], ["a", "", "dd"]),
    "[\\]\\^\\\\]": (["]", "^", "\\"], ["[", "a"]),
    "[a\\d]{3}": (["a12"], ["ab1"]),
    "[^\\s\\w]": (["-", "!"], ["a", " ", "é", "\u00a0"]),
    ".": (["a", "é", "😀", '"'], ["\n", "ab"]),
    "\\.\\*\\(\\)\\[\\{\\}\\/\\$\\^\\|\\+\\?\\-": ([".*()[{}/$^|+?-"], ["x"]),
    "\\x41\\u00e9\\t\\n": (["Aé\t\n"], ["A"]),
    "\\w\\d\\s\\S\\D\\W": (["a1 xy-"], ["-1 xy-"]),
    "x{a}y{z}": (["x{a}y{z}"], ["xxy"]),
    "a+?b*?c??": (["ab", "aabbc"], ["b"]),
    "^ab$": (["ab"], ["xab"]),
    "^a$|^b$": (["a", "b"], ["ab"]),
    "((a|b)*c)*": (["", "c", "abcbc"], ["ab"]),
    "\u65e5\u672c{2}": (["日本本"], ["日本"]),
}


@pytest.mark.parametrize("pattern", MATCHING)
def test_matching(pattern: str) -> None:
    good, bad = MATCHING[pattern]
    grammar = bound("ebnf", regex_grammar(pattern))
    assert [text for text in good if not accepts(grammar, text)] == []
    assert [text for text in bad if accepts(grammar, text)] == []


@pytest.mark.parametrize("pattern", MATCHING)
def test_whatever_follows_the_grammar_matches(pattern: str) -> None:
    seed = seed_of_test()
    draw = random.Random(seed)
    python = re.compile(pattern.replace("(?<month>", "(?P<month>"))
    whole = pattern if pattern.startswith("^") else f"^({pattern})$"
    free, quoted = bound("ebnf", regex_grammar(pattern)), bound("ebnf", f"root ::= {json_string(whole)}")
    for _ in range(8):
        text = walk(free, draw, patience=draw.randrange(20))
        assert python.fullmatch(text), repr(text)
        value = json.loads(walk(quoted, draw, patience=draw.randrange(20)))
        assert python.search(value), repr(value)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "not closed"),
        ("a)", "never opened"),
        ("*a", "nothing to repeat"),
        ("a|+", "nothing to repeat"),
        ("a**", "repeated"),
        ("a{2}{3}", "repeated"),
        ("a++", "repeated"),
        ("a{,3}", "different things"),
        ("a{3,2}", "smaller number first"),
        (f"a{{{MAX_REPEATS + 1}}}", "repetitions"),
        ("[a", "not closed"),
        ("[a\\", "not supported"),
        ("[]a]", "empty set"),
        ("[[:alpha:]]", "named class"),
        ("[z-a]", "upwards"),
        ("[\\d-z]", None),
        ("[a-\\d]", "upwards"),
        ("[^\\s\\S]", "without characters"),
        ("(?=a)b", "look-around"),
        ("(?<!a)b", "look-around"),
        ("(?i)a", "flags"),
        ("(a)\\1", "not supported"),
        ("\\bfoo", "not supported"),
        ("\\p{L}", "not supported"),
        ("\\A", "not supported"),
        ("\\ud800", "no such character"),
        ("\\u{110000}", "no such character"),
        ("a^b", "at the ends only"),
        ("a$b", "at the ends only"),
        ("(^a$)|b", "at the ends only"),
        ("a\\", "not supported"),
        ("(" * 40 + "a" + ")" * 40, "deeper"),
    ],
)
def test_what_is_refused(pattern: str, why: str | None) -> None:
    if why is None:
        assert accepts(bound("ebnf", regex_grammar(pattern)), "-")
        return
    with pytest.raises(RegexError, match=why):
        parse(pattern)


def test_a_long_expression_is_read_in_linear_time() -> None:
    assert len(parse("(a|b)?" * 600)) == 1
    assert len(parse("|" * 4000)) == 4001
