"""What is shown: one line per step, failed steps too, and text that is never taken for markup."""

from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console

from gateway.local.show import Screen


class TickingClock:
    """A second passes at each look."""

    def __init__(self) -> None:
        self.looks = 0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        self.looks += 1
        return float(self.looks)


@pytest.fixture
def output() -> StringIO:
    return StringIO()


@pytest.fixture
def screen(output: StringIO) -> Screen:
    return Screen(TickingClock(), Console(file=output, width=200, highlight=False))


def test_a_step_ends_in_one_line(screen: Screen, output: StringIO) -> None:
    with screen.step("Engine") as step:
        step.say("loading")
        step.say("ready")
    assert output.getvalue() == "✓ Engine  ready  1.0 s\n"


def test_a_failed_step_says_so(screen: Screen, output: StringIO) -> None:
    with pytest.raises(RuntimeError), screen.step("Engine"):
        raise RuntimeError("no")
    assert output.getvalue() == "✗ Engine  1.0 s\n"


def test_text_is_no_markup(screen: Screen, output: StringIO) -> None:
    screen.piece("[red]un")
    screen.piece("changed[/red]")
    screen.line(" [bold]")
    assert output.getvalue() == "[red]unchanged[/red] [bold]\n"
