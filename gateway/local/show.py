"""What `tollway up` shows: one line per step with its time, and text as it streams.

Place: the terminal side of `up` and of the other commands. Knows nothing of what the steps do.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from gateway.clock import Clock

__all__ = ["Screen", "Step"]


class Step:
    """A step that is running; `detail` is shown beside its title, now and when it has ended."""

    def __init__(self, title: str, console: Console) -> None:
        self.title = title
        self.detail = ""
        self._status = console.status(title)

    def say(self, detail: str) -> None:
        self.detail = detail
        self._status.update(f"{self.title} · {detail}")

    def start(self) -> None:
        self._status.start()

    def stop(self) -> None:
        self._status.stop()


class Screen:
    def __init__(self, clock: Clock, console: Console | None = None) -> None:
        self._clock = clock
        self._console = console or Console(highlight=False)

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        began = self._clock.monotonic()
        step = Step(title, self._console)
        step.start()
        mark = "[red]✗[/red]"
        try:
            yield step
            mark = "[green]✓[/green]"
        finally:
            step.stop()
            seconds = self._clock.monotonic() - began
            detail = f"  {step.detail}" if step.detail else ""
            self._console.print(f"{mark} {title}{detail}  [dim]{seconds:.1f} s[/dim]", soft_wrap=True)

    def line(self, text: str = "") -> None:
        self._console.print(text, markup=False, soft_wrap=True)

    def piece(self, text: str) -> None:
        """A part of a text that goes on; nothing in it is markup."""
        self._console.print(text, end="", markup=False, soft_wrap=True)
