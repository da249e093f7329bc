"""Data sets: lengths, what is shared, and files of both formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workbench.bench.datasets import MultiTurn, Synthetic, read_file
from workbench.bench.errors import BenchError


def _ids(dataset: Synthetic, index: int) -> tuple[int, ...]:
    (turn,) = dataset.conversation(index).turns
    assert isinstance(turn.prompt, tuple)
    return turn.prompt


def test_random_prompts_have_the_length_and_follow_from_the_seed() -> None:
    dataset = Synthetic(20, 7, vocab=(5, 50))
    first = _ids(dataset, 0)
    assert (len(first), dataset.conversation(0).turns[0].output_tokens) == (20, 7)
    assert all(5 <= token < 50 for token in first)
    assert first == _ids(Synthetic(20, 7, vocab=(5, 50)), 0)
    assert len({first, _ids(dataset, 1), _ids(Synthetic(20, 7, seed=1, vocab=(5, 50)), 0)}) == 3


def test_shared_prefixes_are_shared_by_every_so_many_th() -> None:
    dataset = Synthetic(4, 1, prefix_tokens=16, num_prefixes=2)
    prompts = [_ids(dataset, index) for index in range(4)]
    assert {len(prompt) for prompt in prompts} == {20}
    assert prompts[0][:16] == prompts[2][:16] != prompts[1][:16] == prompts[3][:16]
    assert len({prompt[16:] for prompt in prompts}) == 4


def test_conversations_of_turns() -> None:
    dataset = MultiTurn(input_words=6, output_tokens=9, turns=3)
    conversation = dataset.conversation(5)
    assert (dataset.turns_mean, conversation.is_chat) == (3.0, True)
    assert [len(str(turn.prompt).split()) for turn in conversation.turns] == [6, 6, 6]
    assert conversation == dataset.conversation(5) != dataset.conversation(6)


SHAREGPT = [
    {"conversations": [
        {"from": "human", "value": "Hello?"}, {"from": "gpt", "value": "x" * 40},
        {"from": "human", "value": "More?"}, {"from": "gpt", "value": "y" * 8}, {"from": "human", "value": "Lost"},
    ]},
    {"conversations": [{"from": "gpt", "value": "It begins with an answer."}, {"from": "human", "value": "No."}]},
    {"conversations": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "!"}]},
]  # fmt: skip


def test_sharegpt(tmp_path: Path) -> None:
    path = tmp_path / "chats.json"
    path.write_text(json.dumps(SHAREGPT))
    one = read_file(path, None)
    assert (one.size, one.turns_mean) == (2, 1.0)
    assert [(t.prompt, t.output_tokens) for t in one.conversation(0).turns] == [("Hello?", 10)]
    assert [(t.prompt, t.output_tokens) for t in one.conversation(3).turns] == [("Hi", 1)], (
        "begun again at the end"
    )
    two = read_file(path, 33, turns=5)
    assert [(t.prompt, t.output_tokens) for t in two.conversation(0).turns] == [("Hello?", 33), ("More?", 33)]
    assert two.turns_mean == 1.5


def test_jsonl(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    system = {"role": "system", "content": "Be brief."}
    lines = [
        {"prompt": "Once", "max_tokens": 5},
        {"prompt": [7, 8, 9]},
        {"messages": [system, {"role": "user", "content": "Hello"}]},
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    found = read_file(path, 12)
    text, ids, chat = (found.conversation(index) for index in range(3))
    assert (text.turns[0].prompt, text.turns[0].output_tokens, text.is_chat) == ("Once", 5, False)
    assert (ids.turns[0].prompt, ids.turns[0].output_tokens) == ((7, 8, 9), 12)
    assert (chat.turns[0].prompt, chat.history, chat.is_chat) == ("Hello", (system,), True)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", "{", "must end in .jsonl"),
        ("a.json", "{}", "is a list of objects with `conversations`"),
        ("a.json", "[]", "holds no conversation that begins with a question"),
        ("a.jsonl", '{"prompt": "x"}\n{"text": "y"}', "line 2: give an object with `prompt`"),
        ("a.jsonl", "[1]", "line 1"),
    ],
)
def test_wrong_files(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BenchError, match=said):
        read_file(tmp_path / name, None)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="cannot be read"):
        read_file(tmp_path / "none.json", None)
