"""Requests that wait for their grammar, and those that do not."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.grammar.bound import BoundGrammar
from engine.grammar.cache import GrammarCache
from engine.grammar.compiler import NUM_THREADS, Key, Outcome
from engine.grammar.desk import GrammarDesk
from engine.messages import (
    AbortRequest,
    AddRequest,
    CoreInbound,
    GrammarSpec,
    LoadStats,
    SamplingParams,
    Shutdown,
    StepOutputs,
    TokenOutput,
    WorkerGone,
)

PATIENCE_S = 60.0


class Bench:
    """Both ends of a desk, and a compiler that finishes what it is told to."""

    def __init__(self, *, max_held: int = 1000) -> None:
        self.now = 0.0
        self.arriving: list[CoreInbound] = []
        self.sent: list[tuple[int, StepOutputs]] = []
        self.submitted: list[Key] = []
        self.done: list[Outcome] = []
        self.desk = GrammarDesk(
            self,
            lambda *sent: self.sent.append(sent),
            self,
            GrammarCache(1 << 20),
            lambda: self.now,
            max_held=max_held,
            patience_s=PATIENCE_S,
        )

    def drain(self, timeout_s: float) -> list[CoreInbound]:
        arrived, self.arriving = self.arriving, []
        return arrived

    def submit(self, key: Key) -> None:
        self.submitted.append(key)

    def take(self) -> list[Outcome]:
        done, self.done = self.done, []
        return done

    def turn(self, *arriving: CoreInbound) -> list[CoreInbound]:
        self.arriving += arriving
        return self.desk.drain(0.0)

    @property
    def ends(self) -> dict[str, TokenOutput]:
        outputs = [output for _, step in self.sent for output in step.outputs]
        assert max(Counter(output.request_id for output in outputs).values(), default=1) == 1
        return {output.request_id: output for output in outputs}


def add(name: str, pattern: str | None = None, fairness_id: str = "", worker: int = 0) -> AddRequest:
    grammar = None if pattern is None else GrammarSpec("ebnf", pattern, "structured_outputs.regex")
    sampling = SamplingParams(seed=1, max_tokens=5, grammar=grammar)
    return AddRequest(
        request_id=name, worker=worker, prompt_token_ids=[1], sampling=sampling, fairness_id=fairness_id
    )


def names(messages: list[CoreInbound]) -> list[str]:
    return [message.request_id for message in messages if isinstance(message, AddRequest)]


def ready(pattern: str) -> Outcome:
    return Outcome(("ebnf", pattern), f"compiled {pattern}", 10)


def test_only_requests_with_a_grammar_wait() -> None:
    bench = Bench()
    assert names(bench.turn(add("a", "x+"), add("b"))) == ["b"]
    assert bench.submitted == [("ebnf", "x+")]
    assert bench.turn() == []
    bench.done.append(ready("x+"))
    (message,) = bench.turn()
    assert isinstance(message, AddRequest)
    grammar = message.sampling.grammar
    assert isinstance(grammar, BoundGrammar)
    assert (grammar.compiled, grammar.text, grammar.param) == (
        "compiled x+",
        "x+",
        "structured_outputs.regex",
    )
    assert bench.sent == []


def test_one_compilation_serves_all_who_want_it_and_is_remembered() -> None:
    bench = Bench()
    bench.turn(add("a", "x"), add("b", "x"))
    assert names(bench.turn(add("c", "x"))) == []
    bench.done.append(ready("x"))
    assert names(bench.turn()) == ["a", "b", "c"]
    assert names(bench.turn(add("d", "x"))) == ["d"]
    assert bench.submitted == [("ebnf", "x")]


def test_a_refused_grammar_ends_its_requests_and_no_other() -> None:
    bench = Bench()
    bench.desk.emit(0, StepOutputs(outputs=[], load=LoadStats(num_running=7)))
    bench.turn(add("a", "("), add("b", "y"), add("c", "(", worker=1))
    bench.done += [Outcome(("ebnf", "("), error="it is not closed"), ready("y")]
    assert names(bench.turn()) == ["b"]
    assert set(bench.ends) == {"a", "c"}
    end = bench.ends["a"]
    assert (end.finish_reason, end.error_code) == ("error", "invalid_grammar")
    assert end.error_param == "structured_outputs.regex"
    assert "it is not closed" in (end.error_message or "")
    assert [worker for worker, step in bench.sent if step.outputs] == [0, 1]
    assert bench.sent[-1][1].load.num_running == 7, "load figures stay those of the last step"
    bench.turn(add("d", "("))
    assert bench.ends["d"].error_code == "invalid_grammar"
    assert len(bench.submitted) == 2, "it is not tried again"


def test_what_is_not_the_callers_fault_is_tried_again() -> None:
    bench = Bench()
    bench.turn(add("a", "x"))
    bench.done.append(Outcome(("ebnf", "x"), error="gone", is_callers=False, is_final=False))
    bench.turn()
    assert (bench.ends["a"].error_code, bench.ends["a"].error_param) == ("engine_error", None)
    bench.turn(add("b", "x"))
    bench.done.append(ready("x"))
    assert names(bench.turn()) == ["b"]


def test_a_machine_that_is_too_busy_is_overload() -> None:
    """Never an error of the server's, nor of the grammar's: the next replica may have time."""
    bench = Bench()
    bench.turn(add("a", "x"))
    busy = Outcome(("ebnf", "x"), error="busy", is_callers=False, is_final=False, is_overload=True)
    bench.done.append(busy)
    bench.turn()
    assert (bench.ends["a"].error_code, bench.ends["a"].error_param) == ("server_is_overloaded", None)


def test_an_aborted_request_ends_at_once() -> None:
    bench = Bench()
    bench.turn(add("a", "x"), add("b", "x"))
    abort = AbortRequest(request_ids=["a", "unknown"])
    assert bench.turn(abort) == [abort], "the loop has requests of its own"
    assert bench.ends["a"].finish_reason == "abort"
    bench.done.append(ready("x"))
    assert names(bench.turn()) == ["b"]


def test_a_grammar_that_nobody_wants_any_more_is_not_compiled() -> None:
    bench = Bench()
    bench.turn(*(add(str(index), f"x{index}") for index in range(NUM_THREADS + 2)))
    assert len(bench.submitted) == NUM_THREADS
    bench.turn(AbortRequest(request_ids=[str(NUM_THREADS)]))
    bench.done.append(ready("x0"))
    bench.turn()
    assert bench.submitted[-1] == ("ebnf", f"x{NUM_THREADS + 1}")


def test_callers_take_turns() -> None:
    bench = Bench()
    bench.turn(*(add(f"a{index}", f"a{index}", "busy") for index in range(6)))
    bench.turn(add("b", "b", "other"))
    for _ in range(2):
        bench.done.append(ready(bench.submitted[0][1]))
        bench.turn()
        bench.submitted.pop(0)
    assert ("ebnf", "b") in bench.submitted, bench.submitted


def test_who_waits_too_long_is_refused_though_nothing_was_compiled() -> None:
    """Two grammars that take all the compiler's time must not keep a third request without an answer."""
    bench = Bench()
    bench.turn(*(add(str(index), f"x{index}") for index in range(NUM_THREADS)))
    bench.now = 10.0
    bench.turn(add("late", "y"))
    bench.now = PATIENCE_S + 9.9
    bench.turn()
    assert set(bench.ends) == {str(index) for index in range(NUM_THREADS)}
    bench.now = PATIENCE_S + 10.0
    bench.turn()
    end = bench.ends["late"]
    assert (end.finish_reason, end.error_code) == ("error", "server_is_overloaded")
    bench.done.append(ready("x0"))
    assert bench.turn() == [], "nobody waits for it any more"
    assert ("ebnf", "y") not in bench.submitted


def test_the_time_at_the_desk_counts_in_the_schedulers_line() -> None:
    bench = Bench()
    bench.turn(add("a", "x"))
    bench.now = 7.0
    bench.turn(add("b", "x"))
    bench.now = 9.0
    bench.done.append(ready("x"))
    messages = bench.turn(add("c", "x"))
    assert [message.held_s for message in messages if isinstance(message, AddRequest)] == [9.0, 2.0, 0.0]


def test_the_line_has_an_end_and_the_id_that_fills_it_gives_way() -> None:
    bench = Bench(max_held=4)
    bench.turn(*(add(f"a{index}", f"a{index}", "busy") for index in range(6)))
    assert set(bench.ends) == {"a4", "a5"}, "the newcomer, if its id is the one"
    bench.turn(add("b", "b", "other"))
    assert set(bench.ends) == {"a4", "a5", "a3"}
    assert {end.error_code for end in bench.ends.values()} == {"server_is_overloaded"}
    bench.turn(AbortRequest(request_ids=["a2"]), add("a6", "a6", "busy"))
    assert "a6" not in bench.ends, "a place that was left is free"
    bench.desk.emit(0, StepOutputs(outputs=[], load=LoadStats(num_waiting=5, num_refused=1)))
    load = bench.sent[-1][1].load
    assert (load.num_waiting, load.num_refused) == (5 + 4, 1 + 3)


def test_who_is_refused_is_told_how_long_the_line_takes() -> None:
    """One grammar in four seconds, three requests that wait."""
    bench = Bench(max_held=3)
    bench.turn(*(add(f"a{index}", f"a{index}", "busy") for index in range(3)))
    for index in range(20):
        bench.now += 4.0
        bench.done.append(ready(f"a{index}"))
        bench.turn(add(f"a{index + 3}", f"a{index + 3}", "busy"))
    bench.turn(add("more", "more", "busy"))
    told = bench.ends["more"].retry_after_s
    assert told is not None
    assert told == pytest.approx(3 * 4.0, rel=0.1)


def test_a_dead_worker_and_the_end() -> None:
    bench = Bench()
    bench.turn(add("a", "x", worker=1), add("b", "x"))
    gone = WorkerGone(worker=1)
    assert bench.turn(gone) == [gone]
    assert bench.ends == {}, "nobody listens"
    assert bench.turn(Shutdown()) == [Shutdown()]
    assert {name: end.finish_reason for name, end in bench.ends.items()} == {"b": "abort"}


@pytest.mark.parametrize("known", [False, True])
def test_an_abort_in_the_same_breath(known: bool) -> None:
    bench = Bench()
    if known:
        bench.turn(add("first", "x"))
        bench.done.append(ready("x"))
        bench.turn()
    abort = AbortRequest(request_ids=["a"])
    messages = bench.turn(add("a", "x"), abort)
    assert messages[-1] == abort
    assert (names(messages) == ["a"]) is known
    assert ("a" in bench.ends) is not known


@pytest.mark.parametrize("pattern", ["b", "a", None])
def test_a_second_request_of_a_name_that_waits_is_dropped(pattern: str | None) -> None:
    """As in the loop: an answer to it would be the first one's, which goes on undisturbed."""
    bench = Bench()
    assert bench.turn(add("one", "a"), add("one", pattern), add("two", "a")) == []
    assert bench.submitted == [("ebnf", "a")]
    bench.done.append(ready("a"))
    assert names(bench.turn()) == ["one", "two"]
    bench.turn(AbortRequest(request_ids=["one"]))
    assert bench.ends == {}, "it waits here no more"
