"""The process that tries grammars out: ready with xgrammar and the vocabulary, it forks a child for each job.

Started by `compiler` as `python -m engine grammar --control-fd N`. A child compiles the grammar and follows it for a
while. It may take as much time and memory as it is allowed and not more: the kernel ends it, and nobody but the request
that asked notices. What a child has survived the core process does once more for itself: a compiled grammar in transit
takes up to fifty times its size and longer than compiling it. Knows no requests.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import socket
import struct
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from engine.grammar.rows import GrammarError, RowGrammar, unpack
from engine.text.answer import MARKERS
from engine.text.tokenizer import Tokenizer, load_tokenizer

if TYPE_CHECKING:
    import xgrammar

FINE, REFUSED = b"+", b"-"
"""First byte of a child's answer; after a refusal its reason."""
_REHEARSED_TOKENS = 200
_MAX_MESSAGE = 300
_ORIGIN = re.compile(r"^(\[[\d:]+\] )?\S+\.(cc|h):\d+: ")


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """Sent once, before the first job."""

    tokenizer: str
    """What `load_tokenizer` takes."""
    cache_dir: str
    vocab_size: int
    """The model's, which may be larger than the tokenizer's."""
    eos_token_ids: tuple[int, ...]
    cpu_s: float
    wall_s: float
    memory_bytes: int
    """Beyond what the process has before the job."""
    result_bytes: int
    """The largest compiled grammar."""
    threads: int = 1


class Job(msgspec.Struct, frozen=True):
    kind: str
    text: str


def main(control: socket.socket) -> int:
    """Serve until the other end closes. Runs at the priority of `compiler`'s threads, which start it."""
    import xgrammar

    setup = msgspec.msgpack.decode(receive_frame(control), type=Setup)
    info = xgrammar.TokenizerInfo(
        vocabulary(load_tokenizer(Path(setup.tokenizer), Path(setup.cache_dir)), setup.vocab_size),
        xgrammar.VocabType.RAW,
        vocab_size=setup.vocab_size,
        stop_token_ids=list(setup.eos_token_ids),
    )
    send_frame(control, info.serialize_json().encode())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries them
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return 0
        with socket.socket(fileno=descriptors[0]) as job:
            if os.fork() == 0:
                control.close()
                _child(job, info, setup)


def vocabulary(tokenizer: Tokenizer, vocab_size: int) -> list[bytes]:
    """What each token adds to an answer. Special tokens add nothing, and no grammar can ask for them, but for those
    that mark calls and reasoning: a forced call begins as a free one does."""
    silent = {token_id for token_id in tokenizer.special_ids if tokenizer.token(token_id) not in MARKERS}
    return [
        b"" if token_id in silent else tokenizer.token_bytes(token_id)
        for token_id in range(min(vocab_size, tokenizer.vocab_size))
    ]


def compile_grammar(
    kind: str, text: str, info: xgrammar.TokenizerInfo, threads: int
) -> xgrammar.CompiledGrammar:
    """Raises RuntimeError, or another error of xgrammar's, for a text that is no grammar."""
    import xgrammar

    compiler = xgrammar.GrammarCompiler(info, max_threads=threads, cache_enabled=False)
    match kind:
        case "choice":
            return compiler.compile_grammar(_alternatives(json.loads(text)))
        case "ebnf":
            return compiler.compile_grammar(text)
        case "structural_tag":
            return compiler.compile_structural_tag(text)
    raise ValueError(f"there are no grammars of kind {kind}")


def rehearse(compiled: xgrammar.CompiledGrammar, vocab_size: int, eos_token_ids: Collection[int]) -> None:
    """Follow it with tokens drawn at random, the end last. Raises `GrammarError` where an answer would get stuck."""
    draw = random.Random(0)
    row = RowGrammar(compiled, vocab_size, (), end_ids=eos_token_ids, min_len=_REHEARSED_TOKENS)
    for length in range(_REHEARSED_TOKENS):
        possible = np.flatnonzero(unpack(row.mask(length), vocab_size))
        token_id = int(possible[draw.randrange(len(possible))])
        if token_id in eos_token_ids:
            return
        row.accept(token_id)


def send_frame(connection: socket.socket, payload: bytes) -> None:
    connection.sendall(struct.pack("<Q", len(payload)) + payload)


def receive_frame(connection: socket.socket) -> bytes:
    """Raises EOFError when the other end closes before the frame is whole."""
    (length,) = struct.unpack("<Q", _receive(connection, 8))
    return _receive(connection, length)


def _receive(connection: socket.socket, length: int) -> bytes:
    buffer = bytearray(length)
    view = memoryview(buffer)
    got = 0
    while got < length:
        count = connection.recv_into(view[got:])
        if count == 0:
            raise EOFError("the connection ended within a frame")
        got += count
    return bytes(buffer)


def _child(job: socket.socket, info: xgrammar.TokenizerInfo, setup: Setup) -> None:
    """Never returns."""
    try:
        _limit(setup)
        wanted = msgspec.msgpack.decode(receive_frame(job), type=Job)
        try:
            compiled = compile_grammar(wanted.kind, wanted.text, info, setup.threads)
            if compiled.memory_size_bytes > setup.result_bytes:
                raise ValueError(
                    f"compiled it takes more than {setup.result_bytes >> 20} MiB; make it simpler"
                )
            rehearse(compiled, setup.vocab_size, setup.eos_token_ids)
            answer = FINE
        except (RuntimeError, ValueError, TypeError, LookupError, GrammarError) as error:
            answer = REFUSED + _reason(error).encode()
        job.sendall(answer)
    finally:
        os._exit(0)


def _limit(setup: Setup) -> None:
    """The default action of both timers' signals ends the process, whatever code it is in."""
    signal.setitimer(signal.ITIMER_PROF, setup.cpu_s)
    signal.setitimer(signal.ITIMER_REAL, setup.wall_s)
    with open("/proc/self/statm") as file:
        present = int(file.read().split()[0]) * resource.getpagesize()
    ceiling = present + setup.memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (ceiling, ceiling))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # What xgrammar has to say about strange grammars is for nobody's log.
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)


def _alternatives(choices: list[str]) -> str:
    """EBNF for one of several texts; every character as its code, so that none is special."""
    quoted = ('"' + "".join(f"\\U{ord(char):08x}" for char in choice) + '"' for choice in choices)
    return "root ::= " + " | ".join(quoted)


def _reason(error: Exception) -> str:
    """An error of xgrammar's in words for callers: no place in its source, one line, not too long."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return _ORIGIN.sub("", lines[0])[:_MAX_MESSAGE]
