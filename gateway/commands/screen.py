"""Where tables are printed: as wide as the terminal, or whole lines where the output is piped on."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_PIPED_COLUMNS = 1000

__all__ = ["screen"]


def screen() -> "Console":
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=_PIPED_COLUMNS)
