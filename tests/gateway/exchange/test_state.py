"""When an attempt has given something that nobody can take back."""

from __future__ import annotations

from gateway.wire import Usage
from tests.gateway.exchange.test_ending import attempt


def test_data_is_what_the_client_may_have_seen() -> None:
    assert not attempt().has_data
    assert attempt(events=1).has_data
    whole = attempt()
    whole.is_complete = True
    assert whole.has_data
    assert whole.url == "http://e"


def test_the_last_figure_stays() -> None:
    seen = attempt()
    seen.saw(Usage(1, 2))
    seen.saw(None)
    assert seen.figure is not None
    assert seen.figure.usage == Usage(1, 2)
