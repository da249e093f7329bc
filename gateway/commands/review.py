"""`tollway review …`: the arguments of what the ledger leaves to people. It is done by `gateway.retention`."""

import asyncio
from datetime import datetime
from typing import Annotated

import typer

from gateway.commands.failing import database_named, one_sentence, read_settings

ITEM_MAX = (1 << 63) - 1

app = typer.Typer(help="Evidence that the ledger cannot settle by itself.", no_args_is_help=True)


@app.command("rebuild")
def rebuild_rollups(
    day: Annotated[datetime, typer.Argument(formats=["%Y-%m-%d"], help="A day (UTC) of an open period.")],
) -> None:
    """Make a day's sums anew from its events, after `rollup_drift` was reported."""
    from gateway.retention.commands import rebuild

    if not 1970 <= day.year < 3000:
        raise typer.BadParameter("the year must be between 1970 and 2999")
    with one_sentence(), database_named():
        drift = asyncio.run(rebuild(read_settings(), day.date()))
        typer.echo(
            f"they were wrong by {drift.nanousd} nano-USD, {drift.tokens} tokens, {drift.requests} requests"
        )


@app.command("list")
def list_review(
    after: Annotated[int, typer.Option(help="Only items behind this one.", min=0, max=ITEM_MAX)] = 0,
) -> None:
    """Show what waits, oldest first, a hundred at a time: one JSON object per line."""
    from gateway.retention.commands import open_review

    with one_sentence(), database_named():
        for line in asyncio.run(open_review(read_settings(), after)):
            typer.echo(line)


@app.command("resolve")
def resolve_review(
    item: Annotated[int, typer.Argument(help="The item's number.", min=0, max=ITEM_MAX)],
    how: Annotated[str, typer.Option(help="What was done about it; kept with the item.")],
) -> None:
    """Take an item off the list."""
    from gateway.retention.commands import resolve

    with one_sentence(), database_named():
        asyncio.run(resolve(read_settings(), item, how))
