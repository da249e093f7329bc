"""Tokens of one sequence become deltas: stops, end tokens, overrun, logprobs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.messages import FinishReason, TokenLogprobs, TokenOutput
from engine.server.choice import Choice, Delta, TextOptions

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
