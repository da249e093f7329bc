"""What a benchmark sends: conversations, made from a seed or read from a file. Pure but for `read_file`.

The same (data set, seed, index) is the same conversation, so that two servers are asked the same. Knows no HTTP.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from engine.bench.workload import Workload
from workbench.bench.errors import BenchError

_CHARACTERS_PER_TOKEN = 4
_WORDS = (
    "time year people way day man thing woman life child world school state family student group country problem hand "
    "part place case week company system program question work night point home water room mother area money story "
    "fact month lot right study book eye job word business issue side kind head house service friend father power hour "
    "game line end member law car city name team minute idea body back parent face level office door health person art"
)


@dataclass(frozen=True, slots=True)
class Turn:
    """What is asked next: token ids for /v1/completions, text for a chat."""

    prompt: tuple[int, ...] | str
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns that follow one another, each sent with what was said before."""

    turns: tuple[Turn, ...]
    is_chat: bool = False
    history: tuple[Mapping[str, Any], ...] = ()
    """Messages before the first turn."""


class Dataset(Protocol):
    """Conversations by number."""

    @property
    def turns_mean(self) -> float: ...

    @property
    def size(self) -> int | None:
        """Conversations that differ; None: without end."""
        ...

    def conversation(self, index: int) -> Conversation: ...


@dataclass(frozen=True, slots=True)
class Synthetic:
    """Random token ids, behind one of `num_prefixes` common beginnings of `prefix_tokens`."""

    input_tokens: int
    output_tokens: int
    prefix_tokens: int = 0
    num_prefixes: int = 1
    seed: int = 0
    vocab: tuple[int, int] = (1000, 100_000)

    turns_mean = 1.0
    size = None

    def conversation(self, index: int) -> Conversation:
        which = index % self.num_prefixes
        # A workload's prefix follows from its seed: each of the common beginnings has one of its own.
        prefix = Workload(1, 0, 1, self.seed * 1_000_003 + which, self.prefix_tokens, self.vocab).prompt(0)
        own = Workload(1, self.input_tokens, 1, self.seed, 0, self.vocab).prompt(index)
        return Conversation((Turn((*prefix, *own), self.output_tokens),))


@dataclass(frozen=True, slots=True)
class MultiTurn:
    """Chats of common words: every turn brings the whole conversation again, with the server's own answers."""

    input_words: int
    output_tokens: int
    turns: int
    seed: int = 0

    size = None

    @property
    def turns_mean(self) -> float:
        return float(self.turns)

    def conversation(self, index: int) -> Conversation:
        draw, words = random.Random(f"{self.seed} {index}"), _WORDS.split()
        texts = [" ".join(draw.choice(words) for _ in range(self.input_words)) for _ in range(self.turns)]
        return Conversation(tuple(Turn(text, self.output_tokens) for text in texts), is_chat=True)


@dataclass(frozen=True, slots=True)
class Listed:
    """Conversations of a file, begun again at its end."""

    conversations: tuple[Conversation, ...]

    @property
    def turns_mean(self) -> float:
        return sum(len(c.turns) for c in self.conversations) / len(self.conversations)

    @property
    def size(self) -> int:
        return len(self.conversations)

    def conversation(self, index: int) -> Conversation:
        return self.conversations[index % len(self.conversations)]


def read_file(path: Path, output_tokens: int | None, turns: int = 1) -> Listed:
    """ShareGPT's format (.json), or an object a line (.jsonl). `output_tokens`: of every answer; None: as long as the
    file's. `turns`: of a conversation, at most."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"{path} cannot be read: {error}") from error
    found = (
        _jsonl(text, path, output_tokens)
        if path.suffix == ".jsonl"
        else _sharegpt(text, path, output_tokens, turns)
    )
    if not found:
        raise BenchError(f"{path} holds no conversation that begins with a question")
    return Listed(tuple(found))


def _sharegpt(text: str, path: Path, output_tokens: int | None, turns: int) -> list[Conversation]:
    try:
        entries = json.loads(text)
    except ValueError as error:
        raise BenchError(
            f"{path} is not JSON ({error}); a file with an object a line must end in .jsonl"
        ) from error
    if not isinstance(entries, list):
        raise BenchError(f"{path}: a file of ShareGPT's format is a list of objects with `conversations`")
    found = []
    for entry in entries:
        said = entry.get("conversations", entry.get("conversation")) if isinstance(entry, dict) else None
        asked = _pairs(said or [], output_tokens)[:turns]
        if asked:
            found.append(Conversation(tuple(asked), is_chat=True))
    return found


def _pairs(said: Sequence[Any], output_tokens: int | None) -> list[Turn]:
    """A question and its answer, for as long as they alternate."""
    turns = []
    for question, answer in zip(said[::2], said[1::2], strict=False):
        if _speaker(question) not in ("human", "user") or _speaker(answer) not in (
            "gpt",
            "assistant",
            "chatgpt",
            "bard",
        ):
            break
        turns.append(Turn(_text(question), output_tokens or _length(_text(answer))))
    return turns


def _speaker(message: Mapping[str, Any]) -> str:
    return str(message.get("from") or message.get("role"))


def _text(message: Mapping[str, Any]) -> str:
    return str(message.get("value") or message.get("content") or "")


def _length(answer: str) -> int:
    """In tokens, about: tokenizers differ, and a benchmark needs a length and not the text."""
    return max(1, len(answer) // _CHARACTERS_PER_TOKEN)


def _jsonl(text: str, path: Path, output_tokens: int | None) -> list[Conversation]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                found.append(_line(json.loads(line), output_tokens))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise BenchError(
                    f"{path}, line {number}: give an object with `prompt` (text or token ids) or `messages`, and perhaps "
                    f"`max_tokens` ({error})"
                ) from error
    return found


def _line(entry: Mapping[str, Any], output_tokens: int | None) -> Conversation:
    length = int(entry.get("max_tokens") or output_tokens or 64)
    if "messages" in entry:
        *history, last = entry["messages"]
        return Conversation((Turn(str(last["content"]), length),), is_chat=True, history=tuple(history))
    prompt = entry["prompt"]
    return Conversation((Turn(prompt if isinstance(prompt, str) else tuple(map(int, prompt)), length),))
