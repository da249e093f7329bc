"""Forms as they arrive, in any pieces."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import InvalidRequest
from gateway.wire.multipart import Event, Field, FileBegins, FilePiece, MultipartReader, boundary_of

BOUNDARY = b"b-1"


def part(disposition: str, content: bytes, further: str = "") -> bytes:
    return (
        f"--b-1\r\nContent-Disposition: form-data; {disposition}\r\n{further}\r\n".encode()
        + content
        + b"\r\n"
    )


FORM = (
    part('name="purpose"', b"batch")
    + part('name="file"; filename="in put.jsonl"', b"one\r\n--b-\r\ntwo", "Content-Type: text/plain\r\n")
    + part('name="expires_after[seconds]"', b"3600")
    + part('name="empty"', b"")
    + b"--b-1--\r\nwhat follows is not read"
)
WANTED = [
    Field("purpose", "batch"),
    FileBegins("file", "in put.jsonl"),
    FilePiece(b"one\r\n--b-\r\ntwo"),
    Field("expires_after[seconds]", "3600"),
    Field("empty", ""),
]


def read(*pieces: bytes) -> tuple[list[Event], bool]:
    """The events, with the pieces of a file put together."""
    reader, found = MultipartReader(BOUNDARY), list[Event]()
    for piece in pieces:
        for event in reader.feed(piece):
            if isinstance(event, FilePiece) and found and isinstance(found[-1], FilePiece):
                event = FilePiece(found.pop().data + event.data)  # type: ignore[union-attr]  # just checked
            found.append(event)
    return found, reader.is_complete


@given(st.lists(st.integers(0, len(FORM)), max_size=12))
def test_any_chunking_gives_the_same(places: list[int]) -> None:
    cuts = [0, *sorted(places), len(FORM)]
    assert read(*[FORM[a:b] for a, b in itertools.pairwise(cuts)]) == (WANTED, True)


def test_byte_by_byte() -> None:
    assert read(*[FORM[at : at + 1] for at in range(len(FORM))]) == (WANTED, True)


def test_a_cut_form_is_not_complete() -> None:
    assert not read(FORM[: FORM.index(b"--b-1--")])[1]


def test_a_large_file_never_piles_up() -> None:
    reader = MultipartReader(BOUNDARY)
    list(reader.feed(part('name="file"; filename="f"', b"")[:-2]))
    for _ in range(100):
        assert sum(len(e.data) for e in reader.feed(b"x" * 100_000) if isinstance(e, FilePiece)) > 99_000
    assert len(reader._waiting) < 100


@pytest.mark.parametrize(
    "wrong",
    [
        part("name=x", b"x" * 70_000),
        b"--b-1\r\nContent-Type: text/plain\r\n\r\nx\r\n",
        b"--b-1\r\nX: " + b"x" * 9000,
        b"no form at all" * 1000,
        b"".join(part(f"name=f{number}", b"x") for number in range(65)),
        part("name=x", b"\xff") + b"--b-1--",
        b"--b-1 \r\nContent-Disposition: form-data; name=x\r\n\r\n",
    ],
)
def test_what_makes_no_sense_is_the_callers_mistake(wrong: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read(wrong)


def test_the_boundary_is_in_the_header() -> None:
    assert boundary_of('multipart/form-data; boundary="a b"') == b"a b"
    assert boundary_of("Multipart/Form-Data; charset=utf-8; boundary=ab") == b"ab"
    for wrong in (
        None,
        "",
        "application/json",
        "multipart/form-data",
        "multipart/form-data; boundary=" + "a" * 71,
    ):
        with pytest.raises(InvalidRequest):
            boundary_of(wrong)
