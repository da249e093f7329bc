"""What is compiled, and what each kind of grammar accepts."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from engine.grammar.compile_process import (
    compile_grammar,
    receive_frame,
    rehearse,
    send_frame,
    vocabulary,
)
from engine.grammar.rows import GrammarError
from engine.text.tokenizer import load_tokenizer
from tests.grammars import EOS, VOCAB, bound, tokenizer, tokenizer_info
from tests.tiny_tokenizer import write_llama_tokenizer


def _accepts(kind: str, text: str, answer: str) -> bool:
    import xgrammar

    matcher = xgrammar.GrammarMatcher(bound(kind, text).compiled)
    return matcher.accept_string(answer) and matcher.is_completed()


@pytest.mark.parametrize(
    ("kind", "text", "good", "bad"),
    [
        ("regex", "a{2,3}", ["aa", "aaa"], ["a", "aaaa", "baa"]),
        (
            "choice",
            '["yes","no \\\\ \\"q\\"\\n","é😀","a[b]"]',
            ["yes", 'no \\ "q"\n', "é😀", "a[b]"],
            ["ye", "a", "é"],
        ),
        ("ebnf", 'root ::= "(" root ")" | "x"', ["x", "((x))"], ["((x)", ""]),
        (
            "structural_tag",
            '{"type":"structural_tag","format":{"type":"sequence","elements":[{"type":"const_string","value":"<t>"},'
            '{"type":"json_schema","json_schema":{"type":"integer"}}]}}',
            ["<t>12"],
            ["12", "<t>", "<t>a"],
        ),
    ],
)
def test_kinds(kind: str, text: str, good: list[str], bad: list[str]) -> None:
    assert [answer for answer in good if not _accepts(kind, text, answer)] == []
    assert [answer for answer in bad if _accepts(kind, text, answer)] == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [("ebnf", "root ::= ("), ("ebnf", "root ::= foo"), ("structural_tag", "{}"), ("unknown", "x")],
)
def test_what_is_no_grammar(kind: str, text: str) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        compile_grammar(kind, text, tokenizer_info(), 1)


def test_a_rehearsal_finds_where_an_answer_gets_stuck() -> None:
    rehearse(bound("regex", "a{3}").compiled, VOCAB, EOS)
    rehearse(bound("regex", "(a|b)*").compiled, VOCAB, EOS)
    with pytest.raises(GrammarError):
        rehearse(bound("ebnf", 'root ::= root root root | "a" | ""').compiled, VOCAB, EOS)


def test_vocabulary() -> None:
    words = vocabulary(tokenizer(), VOCAB)
    assert len(words) == tokenizer().vocab_size
    assert all(words[index] == b"" for index in tokenizer().special_ids)
    assert words[tokenizer().encode("a", add_special_tokens=False)[0]] == b"a"
    assert len(vocabulary(tokenizer(), 100)) == 100


def test_markers_of_calls_are_text_though_special(tmp_path: Path) -> None:
    write_llama_tokenizer(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text(path.read_text().replace('"<|start_header_id|>"', '"[TOOL_CALLS]"'))
    marked = load_tokenizer(tmp_path, tmp_path)
    index = marked.token_id("[TOOL_CALLS]")
    assert index in marked.special_ids
    words = vocabulary(marked, VOCAB)
    assert [words[token_id] for token_id in sorted(marked.special_ids)].count(b"") == len(
        marked.special_ids
    ) - 1
    assert words[index] == b"[TOOL_CALLS]"


def test_frames() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for payload in (b"", b"x", b"y" * 3000):
            send_frame(ours, payload)
            assert receive_frame(theirs) == payload
        ours.sendall(b"\5\0\0\0\0\0\0\0abc")
        ours.close()
        with pytest.raises(EOFError):
            receive_frame(theirs)
