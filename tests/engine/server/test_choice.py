"""Tokens of one sequence become deltas: stops, end tokens, overrun, logprobs."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.messages import FinishReason, TokenLogprobs, TokenOutput
from engine.server.choice import Choice, Delta, TextOptions
from engine.text.answer import AnswerFormat
from engine.text.reasoning import Start
from engine.text.tools.json_calls import HERMES
from tests.engine.server.streams import joined

EOS = 3


class Letters:
    """Token n is the n-th letter; 0 to 3 are special, 200 to 203 the bytes of one character."""

    special_ids = frozenset(range(4))

    def token_bytes(self, token_id: int) -> bytes:
        if token_id >= 200:
            return "🙂".encode()[token_id - 200 : token_id - 199]
        return f"<{token_id}>".encode() if token_id < 4 else chr(token_id).encode()


def ids(text: str) -> list[int]:
    return [ord(char) for char in text]


def run(
    pieces: list[list[int]],
    finish: FinishReason = "length",
    stop_token_id: int | None = None,
    **options: object,
) -> tuple[Choice, list[Delta]]:
    choice = Choice("r-0", 0, Letters(), TextOptions(**options))
    deltas = []
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        output = TokenOutput(
            request_id="r-0",
            token_ids=piece,
            finish_reason=finish if last else None,
            stop_token_id=stop_token_id if last else None,
        )
        delta = choice.take(output)
        if delta is not None:
            deltas.append(delta)
    return choice, deltas


def text(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_chunking_does_not_matter(data: st.DataObject) -> None:
    tokens = data.draw(st.lists(st.sampled_from([*ids("abc"), 200, 201, 202, 203]), min_size=1, max_size=25))
    cuts = sorted(data.draw(st.lists(st.integers(1, len(tokens)), max_size=6)))
    stops = tuple(data.draw(st.lists(st.text("abc", min_size=1, max_size=3), max_size=2)))
    minimum = data.draw(st.integers(0, 6))
    edges = [0, *cuts, len(tokens)]
    pieces = [tokens[a:b] for a, b in zip(edges, edges[1:], strict=False)]  # noqa: RUF007  # one list, twice
    whole, whole_deltas = run([tokens], stops=stops, min_tokens=minimum)
    parts, part_deltas = run(pieces, stops=stops, min_tokens=minimum)
    assert text(part_deltas) == text(whole_deltas)
    assert part_deltas[-1].finish_reason == whole_deltas[-1].finish_reason
    assert (parts.num_tokens, parts.num_overrun) == (whole.num_tokens, whole.num_overrun)
    assert parts.num_tokens + parts.num_overrun == len(tokens)
    assert [d.finish_reason for d in part_deltas].count(None) == len(part_deltas) - 1


def test_stop_straddles_tokens_and_is_not_leaked() -> None:
    choice, deltas = run([ids("a"), ids("E"), ids("N"), ids("D"), ids("xy")], "abort", stops=("END",))
    assert [delta.text for delta in deltas] == ["a", ""]
    assert (deltas[-1].finish_reason, deltas[-1].stop_reason) == ("stop", "END")
    assert (choice.num_tokens, choice.num_overrun) == (4, 2)


def test_held_text_is_released_at_the_end() -> None:
    _, deltas = run([ids("aE"), ids("N")], stops=("END",))
    assert text(deltas) == "aEN"


def test_stop_is_included_when_asked() -> None:
    _, deltas = run([ids("aEND")], stops=("END",), include_stop=True)
    assert text(deltas) == "aEND"


def test_no_stop_before_min_tokens() -> None:
    _, deltas = run([ids("x"), ids("x"), ids("a"), ids("x"), ids("b")], stops=("x",), min_tokens=2)
    assert text(deltas) == "xxa"


@pytest.mark.parametrize(("include", "shown"), [(False, "ab"), (True, "abc")])
def test_stop_token_is_counted_but_not_shown(include: bool, shown: str) -> None:
    stop = ord("c")
    choice, deltas = run(
        [ids("ab"), [stop]], "stop", stop, stop_token_ids=frozenset({stop}), include_stop=include
    )
    assert text(deltas) == shown
    assert choice.num_tokens == 3
    assert (deltas[-1].finish_reason, deltas[-1].stop_reason) == ("stop", stop)


def test_models_own_end_token_is_no_stop_reason() -> None:
    _, deltas = run([ids("ab"), [EOS]], "stop", EOS)
    assert (text(deltas), deltas[-1].finish_reason, deltas[-1].stop_reason) == ("ab", "stop", None)


def test_special_tokens_show_when_asked() -> None:
    assert text(run([[EOS, *ids("a")]])[1]) == "a"
    assert text(run([[EOS, *ids("a")]], skip_special_tokens=False)[1]) == "<3>a"


def test_characters_wait_for_their_bytes() -> None:
    _, deltas = run([[200], [201], [202], [203], ids("a")])
    assert [delta.text for delta in deltas] == ["🙂", "a"]


def test_unfinished_character_comes_out_at_the_end() -> None:
    assert text(run([[200], [201]])[1]) == "�"


def test_logprobs_wait_with_their_text() -> None:
    choice = Choice("r", 0, Letters(), TextOptions(stops=("ab",)))
    entry = TokenLogprobs(token_logprob=-1.0, rank=1, top_ids=[], top_logprobs=[])
    first = choice.take(TokenOutput(request_id="r", token_ids=ids("a"), logprobs=[entry]))
    second = choice.take(TokenOutput(request_id="r", token_ids=ids("x"), logprobs=[entry]))
    assert first is None
    assert second is not None
    assert (second.text, [token for token, _ in second.logprobs]) == ("ax", ids("ax"))


def test_overrun_of_the_core_is_added() -> None:
    choice = Choice("r", 0, Letters(), TextOptions(stops=("b",)))
    choice.take(TokenOutput(request_id="r", token_ids=ids("ab")))
    assert choice.stopped
    choice.take(TokenOutput(request_id="r", token_ids=ids("c")))
    choice.take(TokenOutput(request_id="r", finish_reason="abort", num_overrun_tokens=2))
    assert (choice.num_tokens, choice.num_overrun) == (2, 3)


def test_closed_choice_reports_nothing_more() -> None:
    choice = Choice("r", 0, Letters(), TextOptions())
    choice.take(TokenOutput(request_id="r", token_ids=ids("a")))
    choice.closed = True
    choice.take(TokenOutput(request_id="r", token_ids=ids("bc"), finish_reason="abort"))
    assert (choice.num_tokens, choice.num_overrun) == (1, 2)


def test_nothing_follows_the_end() -> None:
    choice, _ = run([ids("a")])
    with pytest.raises(AssertionError):
        choice.take(TokenOutput(request_id="r-0"))


CALL = '<tool_call>{"name": "now", "arguments": {"a": 1}}</tool_call>'
CALLS = AnswerFormat(reasoning=Start.UNDECIDED, calls=HERMES, functions=frozenset({"now"}))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_steps_do_not_matter_to_calls(data: st.DataObject) -> None:
    """Duty engine-9: however many tokens a step brings, the deltas together are the same, ids of calls included."""
    tokens = ids(
        data.draw(st.sampled_from(["<think>so</think>", ""]))
        + data.draw(st.sampled_from([CALL, CALL + CALL, f"I look.\n{CALL}\nDone.\n{CALL}"]))
        + data.draw(st.sampled_from(["", "\n", " That is it. \n", " a <tool_"]))
    )
    tokens = tokens[: data.draw(st.integers(1, len(tokens)))]
    edges = [0, *sorted(data.draw(st.lists(st.integers(1, len(tokens)), max_size=9))), len(tokens)]
    pieces = [tokens[a:b] for a, b in zip(edges, edges[1:], strict=False)]  # noqa: RUF007  # one list, twice
    options: dict[str, object] = {"format": CALLS, "answer_id": "chatcmpl-1", "stops": ("Q", "</tool_callx")}
    whole, whole_deltas = run([tokens], "stop", **options)
    parts, part_deltas = run(pieces, "stop", **options)
    assert joined(part_deltas) == joined(whole_deltas)
    assert parts.num_reasoning_tokens == whole.num_reasoning_tokens
    assert sum(len(delta.token_ids) for delta in part_deltas) == len(tokens)


def test_ids_of_calls_come_from_the_answer() -> None:
    options: dict[str, object] = {"format": CALLS, "answer_id": "chatcmpl-1"}
    first, second = joined(run([ids(CALL + CALL)], "stop", **options)[1]).calls
    again, _ = joined(run([ids(CALL + CALL)], "stop", **options)[1]).calls
    other, _ = joined(run([ids(CALL + CALL)], "stop", **{**options, "answer_id": "chatcmpl-2"})[1]).calls
    assert first == again
    assert len({first.id, second.id, other.id}) == 3


@pytest.mark.parametrize(
    ("text", "finish", "reason"),
    [
        (CALL, "stop", "tool_calls"),
        (CALL, "length", "length"),
        (CALL, "abort", "abort"),
        (CALL[:-14], "stop", "stop"),
        ("Hello", "stop", "stop"),
    ],
)
def test_finish_reason_of_calls(text: str, finish: FinishReason, reason: str) -> None:
    _, deltas = run([ids(text)], finish, format=CALLS)
    assert deltas[-1].finish_reason == reason
    named = dataclasses.replace(CALLS, finish_reason="stop")
    _, deltas = run([ids(text)], finish, format=named)
    assert deltas[-1].finish_reason == finish


def test_the_last_allowed_call_stops_the_answer() -> None:
    one = dataclasses.replace(CALLS, max_calls=1)
    choice = Choice("r", 0, Letters(), TextOptions(format=one))
    choice.take(TokenOutput(request_id="r", token_ids=ids(CALL + CALL)))
    assert choice.stopped
    assert choice.num_overrun == len(CALL) + len("}</tool_call>")
    delta = choice.take(TokenOutput(request_id="r", token_ids=ids("x"), finish_reason="abort"))
    assert delta is not None
    assert (delta.finish_reason, delta.stop_reason, delta.text) == ("tool_calls", None, "")


def test_reasoning_tokens_are_counted_up_to_the_closing_tag() -> None:
    choice, deltas = run([ids("<think>so</think>x")], "stop", format=CALLS)
    assert (joined(deltas).reasoning, joined(deltas).text) == ("so", "x")
    # Letters stand for tokens here: the opening tag counts from where it is known to be one.
    assert choice.num_reasoning_tokens == len(">so</think>")


def test_markers_are_shown_though_special() -> None:
    _, deltas = run([[1, 2]], "stop", format=CALLS, shown_token_ids=frozenset({2}))
    assert joined(deltas).text == "<2>"


@pytest.mark.parametrize("text", ["Hello <tool_", "Hello \n", "<thin", "<think>so</th"])
def test_what_a_parser_holds_back_comes_with_the_end(text: str) -> None:
    _, deltas = run([ids(text)], "length", format=CALLS)
    assert joined(deltas).reasoning + joined(deltas).text == text.removeprefix("<think>")
