"""The picture: a real PNG that changes with what it shows."""

from __future__ import annotations

import io
import sys

import pytest
from PIL import Image

from tests.workbench.bench.runs import result, run
from workbench.bench.errors import BenchError
from workbench.bench.picture import draw


def test_a_picture_of_two_servers_marks_a_knee() -> None:
    flat = draw(result(run("a", 100, 110, 120, 130)))
    bent = draw(result(run("a", 100, 110, 120, 2000), run("b", 50, 60, 70, 80)))
    for image in (flat, bent):
        with Image.open(io.BytesIO(image)) as opened:
            assert (opened.format, opened.size) == ("PNG", (900, 1050))
    assert flat != bent
    assert _colours(bent) - _colours(flat), "the second server has a colour of its own"


def _colours(image: bytes) -> set[int]:
    """Hues of the coloured pixels, in eighths."""
    with Image.open(io.BytesIO(image)) as opened:
        histogram = opened.convert("RGB").convert("HSV").getcolors(1 << 24) or []
    return {pixel[0] // 32 for count, pixel in histogram if pixel[1] > 150 and count > 20}


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(BenchError, match=r"pip install 'tollway\[bench\]'"):
        draw(result(run("a", 100)))
