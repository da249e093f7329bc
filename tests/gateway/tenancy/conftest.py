"""How old the feed may be is what some of these tests are about, on a clock that they move."""

import pytest

from tests.patience import FRESH, be_patient


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch, FRESH)
