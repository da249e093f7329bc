"""How a command calls the admin API and shows what it answers: the common options, tables, JSON, one sentence."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from gateway.commands.failing import fail
from gateway.commands.screen import screen

if TYPE_CHECKING:
    from gateway.admin_client import AdminClient

T = TypeVar("T")
Json = dict[str, Any]

Url = Annotated[str, typer.Option("--url", envvar="TOLLWAY_URL", help="The gateway's URL.")]
AdminKey = Annotated[str | None, typer.Option("--admin-key", envvar="OPENAI_ADMIN_KEY", help="An admin key.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
HERE = "http://127.0.0.1:8080"


def call(url: str, key: str | None, work: "Callable[[AdminClient], Awaitable[T]]") -> T:
    """What `work` does with a client. Ends the command with a sentence if it cannot."""
    from gateway.admin_client import AdminCallFailed, AdminClient

    known = needed(key)

    async def done() -> T:
        async with AdminClient(url, known) as client:
            return await work(client)

    try:
        return asyncio.run(done())
    except AdminCallFailed as error:
        fail(error)


def needed(key: str | None) -> str:
    """The admin key. Ends the command with a sentence if none was given."""
    if not key:
        fail("give --admin-key or set OPENAI_ADMIN_KEY: `tollway admin bootstrap` makes the first")
    return key


def show_list(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    """A row per object. A dot in a column's name goes down into an object."""
    if as_json:
        typer.echo(json.dumps(list(rows), indent=2))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.rpartition(".")[2], overflow="fold", no_wrap=column == "id")
    for row in rows:
        table.add_row(*(Text(_cell(column, row)) for column in columns))
    screen().print(table)


def show_one(found: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    width = max(map(len, found), default=0)
    for name in found:
        if name != "object":
            typer.echo(f"{name:<{width}}  {_cell(name, found)}")


def confirmed(question: str, yes: bool) -> None:
    if not yes:
        typer.confirm(question, abort=True)


def given(**fields: Any) -> Json:
    """A body of what was typed; what was not stays as it is."""
    return {name: value for name, value in fields.items() if value is not None}


def _cell(column: str, row: Mapping[str, Any]) -> str:
    value: Any = row
    for part in column.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if value is None or value in ([], ""):
        return "-"
    if column.endswith("_at") and isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M")
    if isinstance(value, list) and all(isinstance(part, str | int) for part in value):
        return ", ".join(map(str, value))
    return json.dumps(value) if isinstance(value, list | dict) else str(value)
