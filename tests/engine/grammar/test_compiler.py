"""The real process: what it gives, what it survives, and what it costs the others when a grammar is hostile."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.grammar.compile_process import Setup
from engine.grammar.compiler import Compiler, Key, Outcome
from engine.grammar.rows import RowGrammar
from tests.grammars import EOS, VOCAB, ids
from tests.tiny_tokenizer import write_llama_tokenizer

ROOT = Path(__file__).resolve().parents[3]
FINE = ("ebnf", 'root ::= "a"+ "b"')
HOSTILE = {
    "endless": (
        "ebnf",
        "root ::= (" + " | ".join(f'[{chr(97 + i % 26)}-z]{{1,{i + 1}}} "x"' for i in range(600)) + ")+",
    ),
    "ambiguous": ("ebnf", 'root ::= root root root | "a" | ""'),
    "exponential": (
        "ebnf",
        "\n".join(
            ["root ::= r0", *(f"r{i} ::= r{i + 1} | r{i + 1} r{i + 1}" for i in range(30)), 'r30 ::= "b"']
        ),
    ),
    "huge": ("ebnf", "root ::= " + " ".join(["(" + " | ".join(f'"a{i}"' for i in range(900)) + ")*"] * 70)),
    "deep": ("ebnf", "root ::= " + "(" * 30_000 + '"a"' + ")" * 30_000),
    "deep_tag": (
        "structural_tag",
        '{"type":"structural_tag","format":' + '{"type":"optional","content":' * 20_000 + "1" + "}" * 20_001,
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grammar")
    write_llama_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def compiler(folder: Path) -> Iterator[Compiler]:
    made = Compiler(setup_of(folder))
    yield made
    made.close()


def setup_of(folder: Path) -> Setup:
    return Setup(
        tokenizer=str(folder),
        cache_dir=str(folder),
        vocab_size=VOCAB,
        eos_token_ids=EOS,
        cpu_s=1.0,
        wall_s=60.0,
        memory_bytes=256 << 20,
        result_bytes=2 << 20,
    )


def outcomes(compiler: Compiler, *keys: Key) -> dict[Key, Outcome]:
    for key in keys:
        compiler.submit(key)
    found: dict[Key, Outcome] = {}
    deadline = time.monotonic() + 120
    while len(found) < len(keys):
        assert select.select([compiler], [], [], deadline - time.monotonic())[0], "nothing came"
        found |= {outcome.key: outcome for outcome in compiler.take()}
    return found


def test_a_compiled_grammar_can_be_followed_here(compiler: Compiler) -> None:
    outcome = outcomes(compiler, FINE)[FINE]
    assert outcome.error is None
    assert outcome.size > 0
    row = RowGrammar(outcome.compiled, VOCAB, ids("aab"))
    assert set(EOS) == {index for index in range(VOCAB) if row.mask(9)[index // 32] >> (index % 32) & 1}
    assert compiler.take() == []


def test_it_steps_back_behind_the_engine_once(compiler: Compiler) -> None:
    """Twice, on a machine whose processors are all busy with steps, no grammar would be compiled in time."""
    outcomes(compiler, ("choice", '["c"]'))
    assert compiler.pid is not None
    wanted = max(10, os.getpriority(os.PRIO_PROCESS, 0))
    assert os.getpriority(os.PRIO_PROCESS, compiler.pid) == wanted


def test_a_text_that_is_no_grammar(compiler: Compiler) -> None:
    outcome = outcomes(compiler, ("ebnf", "root ::= ("))["ebnf", "root ::= ("]
    assert outcome.is_callers
    assert outcome.is_final
    assert "error" in (outcome.error or "")
    assert "/" not in (outcome.error or ""), "no place in anybody's source"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_grammar_is_refused_and_disturbs_no_other(compiler: Compiler, name: str) -> None:
    pid = compiler.pid
    found = outcomes(compiler, HOSTILE[name], FINE, ("choice", '["a"]'))
    assert found[HOSTILE[name]].error is not None
    assert found[HOSTILE[name]].is_callers
    assert found[HOSTILE[name]].is_final, "by its own limits, not by waiting"
    assert found[FINE].error is found["choice", '["a"]'].error is None
    assert pid is None or compiler.pid == pid, "only a child is gone"
    deadline = time.monotonic() + 120
    while psutil.Process(compiler.pid).children():
        assert time.monotonic() < deadline, "something goes on in the background"
        time.sleep(0.01)


def test_a_killed_process_is_started_again(compiler: Compiler) -> None:
    outcomes(compiler, FINE)
    pid = compiler.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert outcomes(compiler, FINE)[FINE].error is None
    assert compiler.pid != pid


DYING = """
import os, pathlib, socket, sys, time
from engine.grammar import compile_process
died, fork = pathlib.Path(sys.argv[1]), os.fork
def die_slowly():
    if died.exists():
        return fork()
    died.touch()
    os.closerange(3, 256)
    time.sleep(600)
os.fork = die_slowly
sys.exit(compile_process.main(socket.socket(fileno=int(sys.argv[3]))))
"""


def test_a_process_that_takes_its_time_to_die_is_no_grammars_fault(folder: Path, tmp_path: Path) -> None:
    """Neither for the job that it took nor for one that was sent beside it."""
    compiler = Compiler(setup_of(folder), (sys.executable, "-c", DYING, str(tmp_path / "died")))
    found = outcomes(compiler, FINE, ("choice", '["a"]'))
    assert [outcome.error for outcome in found.values()] == [None, None]
    compiler.close()


def test_a_process_that_cannot_start_is_nobody_elses_fault(folder: Path) -> None:
    setup = Setup(
        tokenizer=str(folder / "missing"),
        cache_dir=str(folder),
        vocab_size=VOCAB,
        eos_token_ids=EOS,
        cpu_s=1.0,
        wall_s=1.0,
        memory_bytes=1 << 20,
        result_bytes=1 << 20,
    )
    compiler = Compiler(setup, ("false",))
    outcome = outcomes(compiler, FINE)[FINE]
    assert (outcome.is_callers, outcome.is_final) == (False, False)
    assert "not available" in (outcome.error or "")
    compiler.close()


def test_a_process_that_starts_too_slowly_is_overload(folder: Path) -> None:
    """And is ended: half started it would be taken for ready, and no grammar would ever be compiled again."""
    slow = (sys.executable, "-c", "import time; time.sleep(600)")
    compiler = Compiler(setup_of(folder), slow, start_s=0.2)
    for _ in range(2):
        outcome = outcomes(compiler, FINE)[FINE]
        assert (outcome.is_overload, outcome.is_callers, outcome.is_final) == (True, False, False)
        assert compiler.pid is None
    compiler.close()


@pytest.mark.parametrize(("waited_s", "is_overload"), [(60.0, True), (59.0, False)])
def test_a_machine_that_is_too_busy_is_not_the_grammars_fault(
    folder: Path, monkeypatch: pytest.MonkeyPatch, waited_s: float, is_overload: bool
) -> None:
    """The time on the wall ran out before the time of the processor did."""
    compiler = Compiler(setup_of(folder))
    monkeypatch.setattr(compiler, "_try_out", lambda key: (b"", waited_s, False))
    outcome = outcomes(compiler, FINE)[FINE]
    assert (outcome.is_overload, outcome.is_callers, outcome.is_final) == (
        is_overload,
        not is_overload,
        not is_overload,
    )
    assert ("retry later" if is_overload else "make it simpler") in (outcome.error or "")
    compiler.close()


def test_the_core_loads_no_compiler_before_a_grammar_comes() -> None:
    script = "import sys, engine.core_process; print(sorted({'xgrammar', 'transformers'} & set(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
