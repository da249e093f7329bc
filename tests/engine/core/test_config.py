"""A configuration that could not work is refused where it is made."""

from __future__ import annotations

import pytest

from engine.core.config import CoreConfig
from engine.core.contract import KVLayout
from tests.engine.core.harness import config, layout


def test_defaults_are_usable() -> None:
    settings = CoreConfig(layout(), 512, 8, 64, (0,))
    assert settings.steps_in_flight == 2
    assert not settings.debug_invariants


@pytest.mark.parametrize(
    "change",
    [
        {"max_num_seqs": 65},
        {"max_num_seqs": 0},
        {"steps_in_flight": 3},
        {"max_num_queued_reqs": 0},
        {"heartbeat_s": 0.0},
        {"layout": KVLayout(16, 64, ())},
        {"layout": layout(0)},
        {"layout": layout(windows=(0,))},
    ],
)
def test_nonsense_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(AssertionError):
        config(**change)
